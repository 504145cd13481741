"""The rights of the proxy's own identities, as its manifests grant them (a contract test holds it).

Every proxy of the sandbox runs with exactly these: reviews by one identity, forwarded requests by
another. Components are granted on top, and only to who asks for them.
"""

from collections.abc import Sequence

Rule = dict[str, list[str]]

_AUTHENTICATION = "authentication.k8s.io"
REVIEWER_NAME = "understudy-reviewer"
_FORWARDER = "understudy-forwarder"
REVIEWER_RULES: tuple[Rule, ...] = (
    {"apiGroups": [_AUTHENTICATION], "resources": ["tokenreviews"], "verbs": ["create"]},
    {
        "apiGroups": ["authorization.k8s.io"],
        "resources": ["subjectaccessreviews"],
        "verbs": ["create"],
    },
)
FORWARDER_RULES: tuple[Rule, ...] = (
    {
        "apiGroups": [""],
        "resources": ["users", "groups", "serviceaccounts"],
        "verbs": ["impersonate"],
    },
    {
        "apiGroups": [_AUTHENTICATION],
        "resources": [
            "uids",
            "userextras/authentication.kubernetes.io/credential-id",
            "userextras/authentication.kubernetes.io/node-name",
            "userextras/authentication.kubernetes.io/node-uid",
            "userextras/authentication.kubernetes.io/pod-name",
            "userextras/authentication.kubernetes.io/pod-uid",
        ],
        "verbs": ["impersonate"],
    },
)
ALL_EXTRAS = "all-extras"
ORIGINAL_USER = "original-user"
COMPONENTS: dict[str, tuple[Rule, ...]] = {
    # RBAC has no pattern for "any extra key" but the star; `userextras/*` would match nothing.
    ALL_EXTRAS: ({"apiGroups": [_AUTHENTICATION], "resources": ["*"], "verbs": ["impersonate"]},),
    ORIGINAL_USER: (
        {
            "apiGroups": [_AUTHENTICATION],
            "resources": [
                "userextras/original-user.kube-understudy.io/name",
                "userextras/original-user.kube-understudy.io/uid",
                "userextras/original-user.kube-understudy.io/groups",
            ],
            "verbs": ["impersonate"],
        },
    ),
}


def forwarder_name(components: Sequence[str] = ()) -> str:
    """Return who forwards with these components: who has more is somebody else."""
    return "-".join((_FORWARDER, *components))


def forwarder_rules(components: Sequence[str] = ()) -> list[Rule]:
    """Return what the forwarder may do with these components."""
    return [*FORWARDER_RULES, *(rule for name in components for rule in COMPONENTS[name])]
