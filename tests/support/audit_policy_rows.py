"""Rows of audit policy semantics: rules, a request, and what is recorded of it.

All rows fit into one policy, so that one API server can be asked about all of them. For that each
row's rules are bound to callers that only this row has: `@` in a user or group stands for the row,
and a rule that names no caller gets the row's own group. Rows of nobody are told apart by their
namespaces and paths.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Rule = Mapping[str, Any]

RECEIVED, STARTED, COMPLETE = "RequestReceived", "ResponseStarted", "ResponseComplete"
SHORT = (RECEIVED, COMPLETE)
LONG = (RECEIVED, STARTED, COMPLETE)
NOBODY = (STARTED,)
POD = "/api/v1/namespaces/n/pods/p"
PODS = "/api/v1/namespaces/n/pods"
NODE = "/api/v1/nodes/x"
DEPLOYMENT = "/apis/apps/v1/namespaces/n/deployments/d"


@dataclass(frozen=True)
class Row:
    """A request of the row's user, and level and stages of its events; of level None are none."""

    id: str
    rules: Sequence[Rule]
    level: str
    target: str = POD
    method: str = "GET"
    groups: tuple[str, ...] = ()
    stages: tuple[str, ...] = SHORT
    is_nobody: bool = False
    user: str = "@user"

    @property
    def user_name(self) -> str:
        return self._own(self.user)

    @property
    def group_names(self) -> tuple[str, ...]:
        return tuple(self._own(name) for name in (*self.groups, "@row"))

    @property
    def bound_rules(self) -> list[dict[str, Any]]:
        return [self._bound(rule) for rule in self.rules]

    @property
    def expected_stages(self) -> tuple[str, ...]:
        return () if self.level == "None" else self.stages

    def _own(self, name: str) -> str:
        return name.replace("@", f"{self.id}.")

    def _bound(self, rule: Rule) -> dict[str, Any]:
        bound = dict(rule)
        for key in ("users", "userGroups"):
            if key in rule:
                bound[key] = [self._own(name) for name in rule[key]]
        names = [*rule.get("users", ()), *rule.get("userGroups", ())]
        if not self.is_nobody and not any("@" in name for name in names):
            bound["userGroups" if "userGroups" not in rule else "users"] = (
                [self._own("@row")] if "userGroups" not in rule else [self.user_name]
            )
        return bound


def resources(*names: str, group: str = "", objects: Sequence[str] = ()) -> dict[str, Any]:
    matched: dict[str, Any] = {"group": group}
    if names:
        matched["resources"] = list(names)
    if objects:
        matched["resourceNames"] = list(objects)
    return {"resources": [matched]}


M, R, RR, N = "Metadata", "Request", "RequestResponse", "None"
META = {"level": M}

ROWS = [
    # Levels and order.
    Row("level-none", [{"level": N}], N),
    Row("level-metadata", [META], M),
    Row("level-request", [{"level": R}], R),
    Row("level-request-response", [{"level": RR}], RR),
    Row("no-rule-matches", [{**META, "verbs": ["list"]}], N),
    Row("first-match-decides", [{"level": R}, META], R),
    Row("none-before-others", [{"level": N}, {"level": RR}], N),
    Row("later-rule", [{"level": RR, "verbs": ["list"]}, META], M),
    # Users and groups.
    Row("user", [{**META, "users": ["@user"]}], M),
    Row("one-of-users", [{**META, "users": ["@other", "@user"]}], M),
    Row("other-user", [{**META, "users": ["@other"]}], N),
    Row("user-is-no-prefix", [{**META, "users": ["@use"]}], N),
    Row("user-star-is-a-name", [{**META, "users": ["@*"]}], N),
    Row("group", [{**META, "userGroups": ["@dev"]}], M, groups=("@dev",)),
    Row("one-of-groups", [{**META, "userGroups": ["@ops", "@dev"]}], M, groups=("@a", "@dev")),
    Row("other-group", [{**META, "userGroups": ["@ops"]}], N, groups=("@dev",)),
    Row("everybody-authenticated", [{**META, "userGroups": ["system:authenticated"]}], M),
    Row("nobody-unauthenticated", [{**META, "userGroups": ["system:unauthenticated"]}], N),
    Row("user-and-group", [{**META, "users": ["@user"], "userGroups": ["@dev"]}], M,
        groups=("@dev",)),
    Row("user-without-group", [{**META, "users": ["@user"], "userGroups": ["@ops"]}], N,
        groups=("@dev",)),
    Row("group-without-user", [{**META, "users": ["@other"], "userGroups": ["@dev"]}], N,
        groups=("@dev",)),
    # Verbs.
    Row("verb", [{**META, "verbs": ["get"]}], M),
    Row("other-verb", [{**META, "verbs": ["list", "watch"]}], N),
    Row("verb-list", [{**META, "verbs": ["list"]}], M, target=PODS),
    Row("verb-deletecollection", [{**META, "verbs": ["deletecollection"]}], M, target=PODS,
        method="DELETE"),
    Row("verb-star-is-a-verb", [{**META, "verbs": ["*"]}], N),
    Row("verb-of-a-path", [{**META, "verbs": ["post"]}], M, target="/version", method="POST"),
    Row("verb-watch", [{**META, "verbs": ["watch"]}], M, target=f"{PODS}?watch=1", stages=LONG),
    # Resources.
    Row("resource", [{**META, **resources("pods")}], M),
    Row("other-resource", [{**META, **resources("secrets")}], N),
    Row("one-of-resources", [{**META, **resources("secrets", "pods")}], M),
    Row("all-of-a-group", [{**META, **resources()}], M),
    Row("all-of-another-group", [{**META, **resources(group="apps")}], N),
    Row("resource-of-a-group", [{**META, **resources("deployments", group="apps")}], M,
        target=DEPLOYMENT),
    Row("resource-of-another-group", [{**META, **resources("deployments", group="batch")}], N,
        target=DEPLOYMENT),
    Row("any-group", [{**META, **resources("deployments", group="*")}], M, target=DEPLOYMENT),
    Row("any-resource", [{**META, **resources("*", group="apps")}], M, target=DEPLOYMENT),
    Row("any-resource-includes-subresources", [{**META, **resources("*")}], M,
        target=f"{POD}/status"),
    Row("unknown-resource", [{**META, **resources("things", group="none.such")}], M,
        target="/apis/none.such/v1/things"),
    # Subresources.
    Row("resource-is-no-subresource", [{**META, **resources("pods")}], N, target=f"{POD}/status"),
    Row("subresource", [{**META, **resources("pods/status")}], M, target=f"{POD}/status"),
    Row("subresource-is-no-resource", [{**META, **resources("pods/status")}], N),
    Row("other-subresource", [{**META, **resources("pods/log")}], N, target=f"{POD}/status"),
    Row("subresources", [{**META, **resources("pods/*")}], M, target=f"{POD}/log", stages=LONG),
    Row("subresources-and-itself", [{**META, **resources("pods/*")}], M),
    Row("subresources-of-another", [{**META, **resources("nodes/*")}], N, target=f"{POD}/status"),
    Row("subresource-of-any", [{**META, **resources("*/scale", group="apps")}], M,
        target=f"{DEPLOYMENT}/scale"),
    Row("subresource-of-any-but-not-itself", [{**META, **resources("*/scale", group="apps")}], N,
        target=DEPLOYMENT),
    Row("other-subresource-of-any", [{**META, **resources("*/scale", group="apps")}], N,
        target=f"{DEPLOYMENT}/status"),
    Row("proxied-path-is-no-subresource", [{**META, **resources("pods/proxy")}], M,
        target=f"{POD}/proxy/a/b", stages=LONG),
    # Names.
    Row("name", [{**META, **resources("pods", objects=["q", "p"])}], M),
    Row("other-name", [{**META, **resources("pods", objects=["q"])}], N),
    Row("list-has-no-name", [{**META, **resources("pods", objects=["p"])}], N, target=PODS),
    Row("list-by-name", [{**META, **resources("pods", objects=["p"])}], M,
        target=f"{PODS}?fieldSelector=metadata.name%3Dp"),
    Row("create-has-no-name", [{**META, **resources("pods", objects=["p"])}], N, target=PODS,
        method="POST"),
    Row("empty-name", [{**META, **resources("pods", objects=[""])}], M, target=PODS),
    Row("name-of-a-subresource", [{**META, **resources("pods/status", objects=["p"])}], M,
        target=f"{POD}/status"),
    # Namespaces.
    Row("namespace", [{**META, "namespaces": ["m", "n"]}], M),
    Row("other-namespace", [{**META, "namespaces": ["m"]}], N),
    Row("no-namespace", [{**META, "namespaces": [""]}], M, target=NODE),
    Row("no-namespace-but-has-one", [{**META, "namespaces": [""]}], N),
    Row("all-namespaces-is-none", [{**META, "namespaces": ["n"]}], N, target="/api/v1/pods"),
    Row("namespace-of-itself", [{**META, "namespaces": ["n"]}], M, target="/api/v1/namespaces/n"),
    Row("namespace-and-resource", [{**META, "namespaces": ["n"], **resources("pods")}], M),
    Row("namespace-without-resource", [{**META, "namespaces": ["n"], **resources("secrets")}], N),
    Row("a-path-has-no-namespace", [{**META, "namespaces": [""]}], N, target="/version"),
    # Other paths.
    Row("path", [{**META, "nonResourceURLs": ["/version"]}], M, target="/version"),
    Row("other-path", [{**META, "nonResourceURLs": ["/version"]}], N, target="/healthz"),
    Row("path-is-no-prefix", [{**META, "nonResourceURLs": ["/version"]}], N, target="/version/"),
    Row("path-prefix", [{**META, "nonResourceURLs": ["/healthz*"]}], M, target="/healthz/ping"),
    Row("path-prefix-itself", [{**META, "nonResourceURLs": ["/healthz*"]}], M, target="/healthz"),
    Row("path-below", [{**META, "nonResourceURLs": ["/logs/*"]}], N, target="/logs"),
    Row("any-path", [{**META, "nonResourceURLs": ["*"]}], M, target="/x"),
    Row("a-resource-is-no-path", [{**META, "nonResourceURLs": ["*"]}], N),
    Row("a-path-is-no-resource", [{**META, **resources("*", group="*")}], N, target="/version"),
    Row("query-is-no-path", [{**META, "nonResourceURLs": ["/version"]}], M,
        target="/version?timeout=32s"),
    Row("escaped-path", [{**META, "nonResourceURLs": ["/a b"]}], M, target="/a%20b"),
    Row("discovery-is-a-path", [{**META, "nonResourceURLs": ["/apis/*"]}], M,
        target="/apis/apps/v1"),
    # Stages.
    Row("omit-received", [{**META, "omitStages": [RECEIVED]}], M, stages=(COMPLETE,)),
    Row("omit-complete", [{**META, "omitStages": [COMPLETE]}], M, stages=(RECEIVED,)),
    Row("omit-started", [{**META, "omitStages": [STARTED]}], M, target=f"{PODS}?watch=1"),
    Row("omit-panic", [{**META, "omitStages": ["Panic"]}], M),
    Row("omit-all", [{**META, "omitStages": [RECEIVED, STARTED, COMPLETE, "Panic"]}], M, stages=()),
    Row("long-running", [META], M, target=f"{POD}/exec?command=id", method="POST", stages=LONG),
    # Nobody.
    Row("nobody-in-a-namespace", [{**META, "namespaces": ["of-nobody"]}], M,
        target="/api/v1/namespaces/of-nobody/pods", stages=NOBODY, is_nobody=True),
    Row("nobody-on-a-path", [{"level": RR, "nonResourceURLs": ["/of-nobody*"]}], RR,
        target="/of-nobody/x", stages=NOBODY, is_nobody=True),
    Row("nobody-has-no-groups",
        [{**META, "namespaces": ["of-nobodies"], "userGroups": ["system:unauthenticated"]}], N,
        target="/api/v1/namespaces/of-nobodies/pods", stages=NOBODY, is_nobody=True),
    Row("nobody-leaves-no-start",
        [{**META, "nonResourceURLs": ["/nobodys-start"], "omitStages": [STARTED]}], M,
        target="/nobodys-start", stages=(), is_nobody=True),
]  # fmt: skip

# These say something for every rule of a policy, so they need one of their own.
POLICY_WIDE = {"omitStages": [RECEIVED], "omitManagedFields": True}
POLICY_WIDE_ROWS = [
    Row("wide-omission", [META], M, stages=(COMPLETE,)),
    Row("wide-omission-and-own", [{**META, "omitStages": [STARTED]}], M,
        target=f"{PODS}?watch=1", stages=(COMPLETE,)),
    Row("wide-omission-of-long", [META], M, target=f"{PODS}?watch=1", stages=(STARTED, COMPLETE)),
    Row("wide-managed-fields", [{"level": RR}], RR, target="/api/v1/namespaces/default",
        groups=("system:masters",), stages=(COMPLETE,)),
    Row("own-managed-fields", [{"level": RR, "omitManagedFields": False}], RR,
        target="/api/v1/namespaces/default", groups=("system:masters",), stages=(COMPLETE,)),
]  # fmt: skip


def policy_of(rows: Sequence[Row], **wide: Any) -> dict[str, Any]:
    """Return one policy that holds the rules of all rows."""
    rules = [rule for row in rows for rule in row.bound_rules]
    return {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", **wide, "rules": rules}
