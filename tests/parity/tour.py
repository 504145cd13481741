"""Cases made on purpose: each mode both ways, each text, each row of the table of check counts.

Chance alone would find most of them in a long run; a short one must not miss any either.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from proxy.sandbox.proxy_rbac import ALL_EXTRAS, forwarder_name
from tests.parity.cases import Caller, CallerKind, Case, Half, Rights
from tests.parity.policies import Verdict
from tests.parity.renaming import FRESH, TOKEN_USER
from tests.parity.requests import review_of_self
from tests.parity.rights import CONSTRAINED_MODES
from tests.parity.tour_guide import Guide, ask
from tests.parity.wanted import ALICE, NODE_USERS, ROBOT_USER

_POD = "/api/v1/namespaces/parity/pods/web"
_USER = "Impersonate-User"
_GROUP = "Impersonate-Group"
_UID = "Impersonate-Uid"
_EXTRA = "Impersonate-Extra-"
_REFUSED_EXTRAS = (
    *(("", "v"), ("scopes", "v"), ("acme.io%2f", "v"), ("%2fx", "v"), ("acme_io%2fx", "v")),
    *(("a" * 254 + "%2fx", "v"), ("a.b%2fx%20y", "v"), ("a_b%2f%5e", "v"), ("a.b%2f%46oo", "v")),
    ("a.b%2fx", ""),
)
_PRETTY = (
    ((b"User-Agent", b"curl/8.0"),),
    ((b"Accept", b"application/json;pretty=1"),),
    ((b"Accept", b"text/html"),),
)


def make_tour(half: Half) -> list[list[Case]]:
    """Return the sets of the tour, each in the order in which some cases build on others."""
    guide = Guide(half)
    sets = [
        [*_modes(guide), *_refusals(guide)],
        [*_texts(guide), *_strangers(guide), *_deviations(guide)],
    ]
    return [*sets, list(_rows(guide))] if half is Half.WEBHOOK else sets


def _target_of(mode: str) -> str:
    return {"serviceaccount": ROBOT_USER, "user-info": ALICE}.get(mode, NODE_USERS[0])


def _modes(guide: Guide) -> Iterator[Case]:
    """Each mode with both halves of its permission, with one of them, and with none."""
    for mode in CONSTRAINED_MODES:
        make = guide.pod if mode == "associated-node" else guide.user
        wanted = (_USER, _target_of(mode))
        for allowed in (
            (f"action:{mode}", f"identity:{mode}"),
            (f"action:{mode}",),
            (f"identity:{mode}",),
        ):
            yield ask(make(*allowed), wanted)
    agent = guide.pod("action:associated-node", "identity:associated-node")
    yield ask(agent, (_USER, NODE_USERS[0]), target="/api/v1/nodes/node-1")
    yield ask(agent, (_USER, NODE_USERS[1]), target="/api/v1/nodes/node-1")
    old = guide.user("legacy")
    for name in (ALICE, NODE_USERS[0], ROBOT_USER, "system:anonymous"):
        yield ask(old, (_USER, name))
        yield ask(guide.user("legacy"), (_USER, name), (_GROUP, "dev"), (_UID, "uid-1"))
    both = guide.user("action:arbitrary-node", "identity:arbitrary-node", "legacy")
    yield ask(both, (_USER, NODE_USERS[0]), target="/api/v1/nodes/node-1")
    yield ask(both, (_USER, NODE_USERS[0]), (_GROUP, "dev"))
    yield ask(both, (_USER, NODE_USERS[0]), target="/api/v1/nodes/node-1")


def _refusals(guide: Guide) -> Iterator[Case]:
    """What no permission opens in a constrained mode, with and without legacy."""
    allowed = ("action:user-info", "identity:user-info")
    for extra in ((), ("legacy",)):
        for group in ("", "system:masters"):
            yield ask(guide.user(*allowed, *extra), (_USER, ALICE), (_GROUP, group))
        for key, value in _REFUSED_EXTRAS:
            yield ask(guide.user(*allowed, *extra), (_USER, ALICE), (_EXTRA + key, value))


def _texts(guide: Guide) -> Iterator[Case]:
    """The forms of a denial."""
    wanted = (_USER, ALICE)
    for target in (
        *(_POD, "/api/v1/nodes", "/api/v1//pods", "/apis/apps/v1//x", "/version", "/%3Cb%3E&"),
        *(
            "/api/v1/namespaces/parity/pods/%3Cx%3E",
            "/apis/apps/v1/namespaces/a/deployments/x/scale",
        ),
        "/api/v1/namespaces/parity/pods?fieldSelector=metadata.name%3Dweb&labelSelector=a%3Db",
    ):
        yield ask(guide.user(), wanted, target=target)
    yield ask(guide.user(name='<b>&"\\'), wanted)
    partly = guide.user("action:user-info", "identity:user-info:users")
    for line in ((_UID, "uid-1"), (_GROUP, "dev"), (_EXTRA + "acme.io%2fuser", "v")):
        yield ask(partly, wanted, line)
        # Who was somebody by legacy before is told what legacy lacks, not what the others do.
        old = guide.user("legacy::users")
        yield ask(old, wanted)
        yield ask(old, wanted, line)
    for lines in (
        [(_GROUP, "a")],
        [(_UID, "u")],
        [(_EXTRA + "x", "y"), (_EXTRA + "x", "z"), (_GROUP, "<>"), (_USER, "")],
    ):
        yield ask(guide.user(), *lines)
    yield ask(guide.user(), wanted, target="/api/v1/watch")
    for pretty in _PRETTY:
        case = ask(guide.user(), wanted)
        yield replace(case, headers=case.headers + pretty)
    yield ask(guide.user(), wanted, target="/api/v1/pods?pretty=1")
    if guide.half is Half.WEBHOOK:
        yield from _reasons(guide)
    else:
        rights = Rights(is_bound_to_missing_role=True)
        yield ask(replace(guide.user(), rights=rights), wanted)


def _reasons(guide: Guide) -> Iterator[Case]:
    for verdict in (
        Verdict("deny", "out of <bounds>"),
        Verdict("no-opinion", "none"),
        Verdict("error", "boom"),
        Verdict("both", "of two minds"),
    ):
        yield ask(guide.denier(verdict), (_USER, ALICE))


def _strangers(guide: Guide) -> Iterator[Case]:
    """Callers that want to be nobody else, or are nobody."""
    self_review = review_of_self()
    for caller in (
        guide.user("legacy"),
        guide.pod(),
        Caller(f"job-{FRESH}", CallerKind.SERVICE_ACCOUNT),
        Caller(TOKEN_USER, CallerKind.STATIC_TOKEN),
    ):
        yield Case(
            caller, self_review.method, self_review.target, self_review.headers, self_review.body
        )
        yield ask(caller, (_USER, ""))
    nobody = Caller("nobody", CallerKind.NOBODY)
    yield ask(nobody)
    yield ask(nobody, (_USER, ALICE))
    yield ask(nobody, target="/api/v1/watch")


def _deviations(guide: Guide) -> Iterator[Case]:
    """One of each kind where we mean to answer otherwise."""
    wanted = (_USER, ALICE)
    everything = ("action:user-info", "identity:user-info", "legacy")
    yield ask(guide.user(*everything), wanted, wanted)
    yield ask(guide.user(*everything), wanted, (_GROUP, "a\tb"))
    yield ask(guide.user(*everything), wanted, ("Impersonate_User", "root"))
    yield ask(guide.user(*everything), wanted, (_GROUP, "system:masters"))
    yield ask(guide.user(*everything), (_USER, forwarder_name([ALL_EXTRAS])))
    yield ask(guide.user(*everything), wanted, *((_GROUP, "g"),) * 1001)
    yield ask(guide.user(*everything), wanted, target="http://example.com/api/v1/pods")
    for media_type in ("application/yaml", "application/vnd.kubernetes.protobuf"):
        yield ask(guide.user(), wanted, ("Accept", media_type))
    upgrade = (("Connection", "Upgrade"), ("Upgrade", "websocket"))
    yield ask(guide.user(), wanted, *upgrade, target=f"{_POD}/exec?command=true")


def _rows(guide: Guide) -> Iterator[Case]:
    """The table of check counts, row by row."""
    alice, node, robot = (_USER, ALICE), (_USER, NODE_USERS[0]), (_USER, ROBOT_USER)
    for mode in CONSTRAINED_MODES:
        make = guide.pod if mode == "associated-node" else guide.user
        caller = make(f"action:{mode}", f"identity:{mode}")
        wanted = (_USER, _target_of(mode))
        yield ask(caller, wanted, row=(f"{mode} succeeds, username only", 2))
        yield ask(caller, wanted, row=(f"{mode}, warm: outer hit", 0))
        yield ask(caller, wanted, target="/version", row=(f"{mode}, warm: inner hit only", 1))
    for legacy in ((), ("legacy",)):
        outcome = "allowed" if legacy else "denied"
        row = f"action allowed, identity denied, legacy {outcome}"
        yield ask(guide.user("action:user-info", *legacy), alice, row=(row, 3))
        yield ask(guide.user(*legacy), alice, row=(f"action denied, legacy {outcome}", 2))
    yield ask(guide.pod(), node, row=("SA on its own node, everything denied", 3))
    actions = ("action:associated-node", "action:arbitrary-node")
    yield ask(guide.pod(*actions), node, row=("SA on its own node, identities denied, legacy", 5))
    for count in (1, 10, 100):
        yield from _group_rows(guide, count)
    for wanted in (node, robot):
        row = "SA or node username plus any other header"
        yield ask(guide.user("legacy"), wanted, (_GROUP, "dev"), row=(row, 2))
    old = guide.user("legacy")
    yield ask(old, alice)
    yield ask(old, alice, row=("legacy remembered for this requestor", 1))


def _group_rows(guide: Guide, count: int) -> Iterator[Case]:
    lines = ((_USER, ALICE), *((_GROUP, f"group-{number}") for number in range(count)))
    star = guide.user("action:user-info", "identity:user-info")
    yield ask(star, *lines, row=(f"user plus {count} groups, wildcard allowed", 3))
    each = guide.user("action:user-info", "each:user-info")
    row = f"user plus {count} groups, wildcard denied, each allowed"
    yield ask(each, *lines, row=(row, {1: 3, 10: 13, 100: 103}[count]))
    row = f"user plus {count} groups, only legacy allowed"
    yield ask(guide.user("legacy"), *lines, row=(row, {1: 3, 10: 12, 100: 102}[count]))


def rows_of_tour() -> list[tuple[str, int]]:
    """Return the rows that the tour shows, each with the number of checks it promises."""
    cases = chain.from_iterable(make_tour(Half.WEBHOOK))
    return list(dict.fromkeys((case.row, case.checks or 0) for case in cases if case.row))
