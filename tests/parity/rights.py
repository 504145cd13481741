"""What callers are allowed: for each mode nothing, half of what it takes, some of it, or all."""

from random import Random

from tests.parity.cases import Half, RbacRule, Rights
from tests.parity.policies import NO, YES, Policy, PolicyRule, Verdict
from tests.parity.renaming import FRESH
from tests.parity.wanted import ACTING_GROUP, ALICE, ROBOT

CONSTRAINED_MODES = ("associated-node", "arbitrary-node", "serviceaccount", "user-info")
AUTHENTICATION = "authentication.k8s.io"

_IDENTITY_RESOURCES = {
    "associated-node": ("nodes",),
    "arbitrary-node": ("nodes",),
    "serviceaccount": ("serviceaccounts",),
    "user-info": ("users", "groups", "uids"),
}
_NAMES = {
    "nodes": ("node-1", f"ghost-{FRESH}", "*"),
    "serviceaccounts": (ROBOT, "default"),
    "users": (ALICE, "system:anonymous", "system:node:Node_1", "<b>&"),
    "groups": ("dev", ACTING_GROUP, "system:nodes", "*", "system:masters"),
    "uids": ("uid-1", "*"),
}
_EXTRAS = (
    *("userextras/acme.io/user", "userextras/acme.io/scopes", "userextras/example.com/a/b"),
    *("userextras/*", "userextras/scopes", "*/acme.io/user", "*"),
)
_VERBS = ("get", "list", "watch", "create", "delete", "deletecollection", "patch", "")
_PATHS = ("/version", "/api", "/apis", "/livez/*", "/", "/none", "/%3Cb%3E&")


def make_rights(random: Random, half: Half) -> Rights:
    """Return rights of one of the kinds that a cluster knows."""
    if half is Half.WEBHOOK:
        return Rights(policy=_make_policy(random))
    cluster: list[RbacRule] = []
    inside: list[RbacRule] = []
    for mode in CONSTRAINED_MODES:
        kind = random.random()
        if kind < 0.85:
            rules = inside if random.random() < 0.15 else cluster
            rules += _action_rules(random, mode, everything=kind < 0.4)
        if kind < 0.1 or kind > 0.2:
            cluster += _identity_rules(random, mode, everything=random.random() < 0.5)
    if random.random() < 0.5:
        cluster += _legacy_rules(random, everything=random.random() < 0.5)
    if random.random() < 0.04:
        cluster.append(RbacRule(("*",), ("*",), ("*",)))
    return Rights(
        tuple(cluster), tuple(_of_resources(inside)), is_bound_to_missing_role=random.random() < 0.1
    )


def _action_rules(random: Random, mode: str, *, everything: bool) -> list[RbacRule]:
    if everything:
        verbs = tuple(f"impersonate-on:{mode}:{verb}" for verb in (*_VERBS, "head", "update"))
        return [RbacRule(verbs, ("*",), ("*",)), RbacRule(verbs, paths=("*",))]
    some = random.sample(_VERBS, k=4)
    verbs = tuple(f"impersonate-on:{mode}:{verb}" for verb in some)
    names = random.choice(((), (), ("web", "node-1")))
    return [
        RbacRule(verbs, ("", "apps"), ("pods", "nodes", "pods/log", "deployments/*"), names),
        RbacRule(verbs, paths=tuple(random.sample(_PATHS, k=3))),
    ]


def _identity_rules(random: Random, mode: str, *, everything: bool) -> list[RbacRule]:
    verbs = (f"impersonate:{mode}",)
    rules = [
        RbacRule(
            verbs,
            (AUTHENTICATION,),
            (resource,),
            () if everything else tuple(random.sample(_NAMES[resource], k=2)),
        )
        for resource in _IDENTITY_RESOURCES[mode]
    ]
    if mode == "user-info":
        extras = ("*",) if everything else tuple(random.sample(_EXTRAS, k=2))
        rules.append(RbacRule(verbs, (AUTHENTICATION,), extras))
    return rules


def _legacy_rules(random: Random, *, everything: bool) -> list[RbacRule]:
    verbs = ("impersonate",)
    if everything:
        return [
            RbacRule(verbs, ("",), ("users", "groups", "serviceaccounts")),
            RbacRule(verbs, (AUTHENTICATION,), ("*",)),
        ]
    users = (ALICE, "system:node:node-1", "system:node:node-2")
    groups = ("dev", "system:masters", "", "ops", ACTING_GROUP)
    return [
        RbacRule(verbs, ("",), ("users",), users),
        RbacRule(verbs, ("",), ("groups",), groups),
        RbacRule(verbs, ("",), ("serviceaccounts",)),
        RbacRule(verbs, (AUTHENTICATION,), ("uids", *random.sample(_EXTRAS, k=2))),
    ]


def _of_resources(rules: list[RbacRule]) -> list[RbacRule]:
    """Leave out what a role in a namespace cannot hold."""
    return [rule for rule in rules if not rule.paths]


_DENIALS = (
    NO,
    NO,
    Verdict("deny"),
    Verdict("deny", 'not <you> & "me"'),
    Verdict("no-opinion", "RBAC: é"),
    Verdict("error", "boom"),
    Verdict("error", "out of <order> & more"),
    Verdict("both", "of two minds"),
)
_ALLOWANCES = (YES, YES, YES, Verdict("allow", "because"))


def _make_policy(random: Random) -> Policy:
    return Policy(
        (
            PolicyRule(_make_verdicts(random, 0.6, 0.15), verb_prefix="impersonate-on:"),
            PolicyRule(_make_verdicts(random, 0.3, 0.4), name="*"),
            PolicyRule(_make_verdicts(random, 0.45, 0.15), verb_prefix="impersonate:"),
            PolicyRule(_make_verdicts(random, 0.2, 0.45)),
        )
    )


def _make_verdicts(random: Random, all_yes: float, all_no: float) -> tuple[Verdict, ...]:
    kind = random.random()
    if kind < all_yes:
        return (random.choice(_ALLOWANCES),)
    if kind < all_yes + all_no:
        return (random.choice(_DENIALS),)
    return (*_ALLOWANCES, *_ALLOWANCES, *random.sample(_DENIALS, k=4))
