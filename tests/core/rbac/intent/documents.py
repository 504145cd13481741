"""Intents as documents, one for each kind of target."""

from typing import Any

USERS: dict[str, Any] = {
    "name": "support",
    "mode": "user-info",
    "impersonators": [{"serviceAccount": "tools/robot"}, {"user": "jane"}, {"group": "helpers"}],
    "targets": [{"user": "alice", "groups": ["dev"], "uid": "7", "extras": {"a.io/b": ["1"]}}],
    "actions": [
        {"verbs": ["get", "list"], "resources": ["pods", "pods/log", "nodes"]},
        {"verbs": ["create"], "resources": ["pods/exec"], "names": ["web-0"]},
        {"verbs": ["get"], "paths": ["/healthz/*"]},
    ],
    "namespaces": ["shop"],
}
NODES: dict[str, Any] = {
    **USERS,
    "mode": "arbitrary-node",
    "targets": [{"node": "n1"}, {"node": "*"}],
}
ACCOUNTS: dict[str, Any] = {
    **USERS,
    "mode": "serviceaccount",
    "targets": [{"serviceAccount": "bank/teller"}, {"serviceAccount": "shop/*"}],
}
ASSOCIATED_NODE: dict[str, Any] = {
    **{key: value for key, value in USERS.items() if key != "targets"},
    "mode": "associated-node",
    "impersonators": [{"serviceAccount": "tools/robot"}, {"group": "system:serviceaccounts"}],
}
ANY_USER: dict[str, Any] = {
    **USERS,
    "targets": [{"user": "*", "groups": ["*"], "uid": "*", "extras": {"a.io/b": ["*"]}}],
    "namespaces": "*",
    "discovery": False,
}
