"""The permissions of the proxy's own identities, equal to the manifests by a contract test.

Every proxy of the sandbox runs with exactly these permissions: the reviewer sends reviews, the
forwarder forwards requests. Permissions of components are granted in addition, if requested.
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
    # RBAC's only pattern for "any extra key" is `*`; `userextras/*` would match nothing.
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
    """Return the forwarder's user name; it differs by components, and so do the permissions."""
    return "-".join((_FORWARDER, *components))


def forwarder_rules(components: Sequence[str] = ()) -> list[Rule]:
    """Return the forwarder's rules with these components."""
    return [*FORWARDER_RULES, *(rule for name in components for rule in COMPONENTS[name])]
