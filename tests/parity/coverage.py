"""What a run has seen natively: an empty cell means that parity was not shown there."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.parity.cases import Half
from tests.parity.renaming import Renaming
from tests.parity.reviews import about
from tests.parity.tour import rows_of_tour
from tests.parity.trials import Trial

_MODES = ("associated-node", "arbitrary-node", "serviceaccount", "user-info", "legacy")
_DENIED_MODE = re.compile(
    r"cannot (?:impersonate-on:([a-z-]+):|impersonate:([a-z-]+) |(impersonate) )"
)
_INVALID_KEY = "impersonating an invalid key in extra is not allowed: "

# Names of cells by what must be found in a message. Every reachable text of sections 2.3 and 5 of
# the reference; a key without values cannot be sent over HTTP, and nothing but a bug reaches the
# refusals of groups beside nodes and the last words of 5.4.
_CONSTRAINED_TEXTS = {
    "2.3 empty group": r"impersonating the empty string group is not allowed$",
    "2.3 system:masters": r"impersonating the system:masters group is not allowed$",
    "2.3 empty extra key": r"impersonating the empty string key in extra is not allowed$",
    "2.3 no domain-prefixed path": _INVALID_KEY + r"extra\.key: .*must be a domain-prefixed path",
    "2.3 long host": _INVALID_KEY + r"extra\.key: .*must be no more than 253 characters$",
    "2.3 malformed host": _INVALID_KEY + r"extra\.key: .*a lowercase RFC 1123 subdomain",
    "2.3 malformed path": _INVALID_KEY + r"extra\.key: .*Invalid path",
    "2.3 several faults": _INVALID_KEY + r"\[extra\.key: .*, extra\.key: .*\]$",
    "2.3 upper-case key": r"impersonating a non-lowercase key in extra is not allowed: \"",
    "2.3 empty extra value": r"impersonating the empty string value in extra is not allowed$",
    "5.1 remembered legacy first": r"cannot impersonate resource \"(uids|groups|userextras/.*)\"",
    "5.2 action on a resource": r"^pods is forbidden: User .* cannot impersonate-on:user-info:list "
    r"resource \"pods\" in API group \"\" at the cluster scope",
    "5.2 action on a name": r'^pods "web" is forbidden: .* in the namespace "parity"',
    "5.2 subresource": r'resource "deployments/scale" in API group "apps"',
    "5.2 no resource at all": r'^forbidden: User .* resource "" in API group ""',
    "5.2 a group without resource": r'^\.apps "x" is forbidden',
    "5.2 action on a path": r'^forbidden: User .* cannot impersonate-on:\S+:get path "/version"',
    "5.2 escaped path": r'cannot \S+ path "/&lt;b&gt;&amp;"',
    "5.2 name left unescaped": r'^pods "<x>" is forbidden',
    "5.2 quoted and escaped caller": r'User "&lt;b&gt;&amp;\\"\\\\',
    "5.2 identity: user": r"^users\.authentication\.k8s\.io .* cannot impersonate:user-info",
    "5.2 identity: arbitrary node": r'^nodes\.authentication\.k8s\.io "node-1" is forbidden',
    "5.2 identity: associated node": r'^nodes\.authentication\.k8s\.io "\*" is forbidden',
    "5.2 identity: service account": r"^serviceaccounts\.authentication.* in the namespace",
    "5.2 identity: uid": r"^uids\.authentication\.k8s\.io .* cannot impersonate:user-info",
    "5.2 identity: group": r"^groups\.authentication\.k8s\.io .* cannot impersonate:user-info",
    "5.2 identity: extra": r'^userextras\.authentication.* resource "userextras/acme\.io/user"',
    "5.4 headers without a user": r"^requested &user\.DefaultInfo\{Name:\"\", UID:\"u\"",
    "5.4 extras without a user": r"Extra:map\[string\]\[\]string\{\"x\":\[\]string\{\"y\", \"z\"\}",
}
_FORMER_TEXTS = {
    "1.4 headers without a user": r"^requested \[\{.*\}\] without impersonating a user$",
    "5.2 legacy user": r'^users ".*" is forbidden: User .* cannot impersonate resource "users"',
    "5.2 legacy group": r'^groups ".*" is forbidden: .* resource "groups" in API group ""',
    "5.2 legacy extra": r"^userextras\.authentication\.k8s\.io .* cannot impersonate resource",
    "5.2 legacy uid": r"^uids\.authentication\.k8s\.io .* cannot impersonate resource",
}
_COMMON_TEXTS = {
    "5.4 unreadable request": r"failed to create RequestInfo: unable to determine kind",
    "5.4 unauthenticated": r"^Unauthorized$",
}
_REASONS = {
    Half.RBAC: {"5.2 reason: role lookup": r": (RBAC|rbac): .*not found"},
    Half.WEBHOOK: {
        "5.2 reason: deny": r": out of <bounds>$",
        "5.2 reason: no opinion": r": recorder: none$",
    },
}
_ERRORS = {
    "5.3 error": r": boom$",
    "5.3 error and reason": r"both allow and deny response: of two minds$",
}


@dataclass(slots=True)
class Coverage:
    """Counts of what was seen. `gate` says which filter the reference runs."""

    gate: bool
    seen: Counter[str] = field(default_factory=Counter)

    def add(self, half: Half, trial: Trial, renaming: Renaming) -> None:
        """Note one case, as the reference answered it."""
        self.seen.update(self._modes_of(half, trial))
        message = trial.reference.message
        self.seen.update(
            name for name, pattern in self._texts(half).items() if re.search(pattern, message)
        )
        if b"\n  " in trial.reference.body:
            self.seen["5.2 indented"] += 1
        case = trial.case
        if case.row and self.gate:
            username = renaming.realise(case.caller.username)
            if len(about(trial.reference.reviews, username)) == case.checks:
                self.seen[f"3.3 {case.row}: {case.checks}"] += 1

    def cells(self) -> list[str]:
        """Return the names of all cells that must not stay empty."""
        modes = _MODES if self.gate else ("legacy",)
        cells = [
            f"{half}: {mode} {outcome}"
            for half in Half
            for mode in modes
            for outcome in ("allowed", "denied")
        ]
        texts = [name for half in Half for name in self._texts(half)]
        rows = [f"3.3 {row}: {checks}" for row, checks in rows_of_tour()] if self.gate else []
        return [*cells, *dict.fromkeys(texts), "5.2 indented", *rows]

    def missing(self) -> list[str]:
        """Return the cells that stayed empty."""
        return [cell for cell in self.cells() if not self.seen[cell]]

    def table(self) -> Iterator[str]:
        """Yield a line for each cell."""
        for cell in self.cells():
            yield f"  {self.seen[cell] or 'EMPTY':>6}  {cell}"

    def _texts(self, half: Half) -> dict[str, str]:
        filtered = {**_CONSTRAINED_TEXTS, **_ERRORS} if self.gate else _FORMER_TEXTS
        if half is Half.RBAC:
            filtered = {name: text for name, text in filtered.items() if name not in _ERRORS}
        return {**filtered, **_COMMON_TEXTS, **_REASONS[half]}

    def _modes_of(self, half: Half, trial: Trial) -> Iterator[str]:
        observed = trial.reference
        if observed.audited("impersonatedUser"):
            metadata = observed.audited("authenticationMetadata") or {}
            constraint = metadata.get("impersonationConstraint", "impersonate:legacy")
            yield f"{half}: {constraint.removeprefix('impersonate:')} allowed"
        elif not observed.ran_as and (denied := _DENIED_MODE.search(observed.message)):
            mode = denied[1] or denied[2] or "legacy"
            yield f"{half}: {mode} denied"
