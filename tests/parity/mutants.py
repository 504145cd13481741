"""Mistakes on purpose, each of which the run must find: one that finds none shows nothing.

Each is put into a proxy of its own, in its own process, from outside: the product has no switch
for it. A mistake that no longer fits the code it spoils fails at once, not silently.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from operator import attrgetter

from proxy.authorization import decision_cache, impersonation
from proxy.core.authorization import access_check
from proxy.core.authorization.access_check import AccessCheck, CheckResult
from proxy.core.impersonation import (
    cache_keys,
    checks,
    evaluation,
    modes,
)
from proxy.core.impersonation.checks import (
    Attempt,
    Step,
    WildcardCheck,
    identity_steps,
)
from proxy.core.impersonation.evaluation import Allowed, Denied, Evaluation
from proxy.core.impersonation.modes import ImpersonationMode, impersonated_user
from proxy.core.userinfo import (
    ServiceAccount,
    UserInfo,
    node_name,
    service_account,
)
from tests.support.fault_injection import put


def _action_unchecked() -> None:
    put(evaluation, "request_checks", lambda attempt: [])


def _uid_unchecked() -> None:
    def without_uid(attempt: Attempt) -> list[Step]:
        return identity_steps(replace(attempt, wanted_user=replace(attempt.wanted_user, uid="")))

    put(evaluation, "identity_steps", without_uid)


def _last_failure_told() -> None:
    def evaluate(attempts: Iterable[Attempt]) -> Evaluation:
        last: Denied = Denied(None, "")
        for attempt in attempts:
            outcome = yield from evaluation._try(attempt)
            if isinstance(outcome, Allowed):
                return outcome
            last = outcome
        return last

    put(impersonation, "evaluate", evaluate)


def _masters_allowed() -> None:
    put(checks, "MASTERS", "nobody's group")


def _empty_group_allowed() -> None:
    original = checks._constrained_groups

    def without_refusal(attempt: Attempt) -> list[Step]:
        groups = tuple(group for group in attempt.wanted_user.groups if group)
        return original(replace(attempt, wanted_user=replace(attempt.wanted_user, groups=groups)))

    put(checks, "_constrained_groups", without_refusal)


def _star_from_five() -> None:
    put(checks, "_WILDCARD_THRESHOLD", 5)


def _star_denial_is_final() -> None:
    put(WildcardCheck, "individual_checks", lambda star: (star.check,))


def _node_by_prefix() -> None:
    def by_prefix(username: str) -> str | None:
        prefix, mark, name = username.partition("system:node:")
        return name if mark and not prefix else None

    put(modes, "node_name", by_prefix)
    put(checks, "node_name", by_prefix)


def _service_account_by_prefix() -> None:
    def by_prefix(username: str) -> ServiceAccount | None:
        prefix, mark, rest = username.partition("system:serviceaccount:")
        namespace, _, name = rest.partition(":")
        return ServiceAccount(namespace, name) if mark and not prefix else None

    put(modes, "service_account", by_prefix)
    put(checks, "service_account", by_prefix)


def _any_node_is_associated() -> None:
    put(
        modes,
        "_is_associated_with_node",
        lambda caller, node: service_account(caller.name) is not None,
    )


def _associated_extras_shown() -> None:
    put(checks, "_reviewed_caller", lambda mode, caller: caller)


def _associated_by_name() -> None:
    original = checks._username_check

    def by_name(attempt: Attempt) -> AccessCheck:
        check = original(attempt)
        if attempt.mode is not ImpersonationMode.ASSOCIATED_NODE:
            return check
        return replace(check, name=node_name(attempt.wanted_user.name) or "")

    put(checks, "_username_check", by_name)


def _node_group_forgotten() -> None:
    def without_nodes(mode: ImpersonationMode, wanted_user: UserInfo) -> UserInfo:
        acting = impersonated_user(mode, wanted_user)
        return replace(acting, groups=tuple(one for one in acting.groups if one != "system:nodes"))

    put(evaluation, "impersonated_user", without_nodes)


def _modes_not_remembered() -> None:
    put(decision_cache.ModeCache, "put", lambda memory, caller, mode: None)


def _request_key_too_short() -> None:
    put(cache_keys, "_request_fields", attrgetter("verb", "resource"))


def _nothing_remembered() -> None:
    put(decision_cache.DecisionCache, "add", lambda memory, attempt, scope: None)


def _extra_keys_unchecked() -> None:
    put(checks, "validate_extra", lambda extra: None)


def _error_text_lost() -> None:
    def denied(attempt: Attempt, check: AccessCheck, result: CheckResult) -> Denied:
        return Denied(check, result.reason)

    put(evaluation, "_denied", denied)


def _constraint_not_audited() -> None:
    put(ImpersonationMode, "constraint", property(lambda mode: None))


def _selectors_not_reviewed() -> None:
    put(access_check, "field_requirements", lambda fields: [])
    put(access_check, "label_requirements", lambda labels: [])


MUTANTS: dict[str, Callable[[], None]] = {
    "action-unchecked": _action_unchecked,
    "uid-unchecked": _uid_unchecked,
    "last-failure-told": _last_failure_told,
    "masters-allowed": _masters_allowed,
    "empty-group-allowed": _empty_group_allowed,
    "star-from-five": _star_from_five,
    "star-denial-is-final": _star_denial_is_final,
    "node-by-prefix": _node_by_prefix,
    "service-account-by-prefix": _service_account_by_prefix,
    "any-node-is-associated": _any_node_is_associated,
    "associated-extras-shown": _associated_extras_shown,
    "associated-by-name": _associated_by_name,
    "node-group-forgotten": _node_group_forgotten,
    "modes-not-remembered": _modes_not_remembered,
    "request-key-too-short": _request_key_too_short,
    "nothing-remembered": _nothing_remembered,
    "extra-keys-unchecked": _extra_keys_unchecked,
    "error-text-lost": _error_text_lost,
    "constraint-not-audited": _constraint_not_audited,
    "selectors-not-reviewed": _selectors_not_reviewed,
}
