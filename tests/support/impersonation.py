"""Impersonation asked at two doors of one cluster: our proxy's, and the native server's.

    robot = Caller("robot", certificate, user_subject("robot"))
    rights.grant(robot, may_be("user-info", "users", "bob"), may_do("user-info", "list"))
    answer = doors.ask(robot, "GET", "/api/v1/pods", as_user("bob"))

Whoever asks at `doors` asks at both: answers of one status, and refusals equal byte for byte, are
part of every question.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from proxy.sandbox.api_client import (
    ApiClient,
    ApiConnection,
    APIResponse,
    Manifest,
)
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.identities import Credential
from proxy.sandbox.objects import apply, path_of
from tests.support.control_plane import fresh_name, who_am_i

AUTHENTICATION = "authentication.k8s.io"
RBAC = "rbac.authorization.k8s.io"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
# What kubectl and Helm visit before the deed itself.
DISCOVERY = ("/api", "/api/*", "/apis", "/apis/*", "/version", "/openapi/*")
PATIENCE_SECONDS = 30.0
POLL_SECONDS = 0.01

Header = tuple[str, str]
Rule = Mapping[str, Sequence[str]]


def as_user(
    name: str,
    *,
    groups: Sequence[str] = (),
    uid: str | None = None,
    extra: Sequence[Header] = (),
) -> list[Header]:
    """Return the headers that ask for an identity; an extra is a key as it is sent, and a value."""
    return [
        ("Impersonate-User", name),
        *([("Impersonate-Uid", uid)] if uid is not None else []),
        *(("Impersonate-Group", group) for group in groups),
        *((f"Impersonate-Extra-{key}", value) for key, value in extra),
    ]


def as_node(node: str) -> list[Header]:
    """Return the header that asks to be a node."""
    return as_user(f"system:node:{node}")


def may(*verbs: str, resources: Sequence[str] = ("pods",), group: str = "") -> Rule:
    """Return a rule as anybody's, for those who act or are acted as."""
    return {"verbs": verbs, "apiGroups": [group], "resources": resources}


def may_be(mode: str, resource: str, *names: str) -> Rule:
    """Return the rule that opens identities in a mode: these, or all of the resource."""
    rule = {
        "verbs": [f"impersonate:{mode}"],
        "apiGroups": [AUTHENTICATION],
        "resources": [resource],
    }
    return {**rule, "resourceNames": names} if names else rule


def may_do(mode: str, *verbs: str, resources: Sequence[str] = ("pods",), group: str = "") -> Rule:
    """Return the rule that opens actions while impersonating in a mode."""
    return may(
        *(f"impersonate-on:{mode}:{verb}" for verb in verbs), resources=resources, group=group
    )


def may_ask_who(mode: str) -> Rule:
    """Return the rule that opens the question who one is while impersonating in a mode."""
    return may_do(mode, "create", resources=["selfsubjectreviews"], group=AUTHENTICATION)


def may_visit(mode: str, *paths: str) -> Rule:
    """Return the rule that opens paths of no resource to GET while impersonating in a mode."""
    return {"verbs": [f"impersonate-on:{mode}:get"], "nonResourceURLs": paths}


def may_impersonate(resource: str, *names: str) -> Rule:
    """Return the rule of legacy impersonation, which is bound to no action."""
    group = AUTHENTICATION if resource.partition("/")[0] in {"uids", "userextras"} else ""
    rule = may("impersonate", resources=[resource], group=group)
    return {**rule, "resourceNames": names} if names else rule


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who asks: the user name, what proves it, and how RBAC calls it."""

    name: str
    credential: Credential
    subject: Manifest
    node: str | None = None


def user_subject(name: str) -> Manifest:
    """Return a user as the subject of a grant."""
    return {"kind": "User", "apiGroup": RBAC, "name": name}


class Rights:
    """Grants that hold everywhere once they are made: each is waited for at every server."""

    def __init__(self, *servers: ApiServer) -> None:
        self._servers = servers

    def grant(self, to: Caller | str, *rules: Rule, namespace: str | None = None) -> str:
        """Give somebody rules, everywhere or in one namespace, and return the grant's name."""
        name = fresh_name("grant")
        user, subject = (to.name, to.subject) if isinstance(to, Caller) else (to, user_subject(to))
        for manifest in _role_and_binding(name, namespace, rules, subject):
            apply(self._servers[0].admin, manifest)
        self.wait_for(user, *rules, namespace=namespace)
        return name

    def withdraw(self, name: str, from_: Caller, rule: Rule) -> None:
        """Take a grant for the whole cluster back; return when no server allows the rule."""
        (_, binding) = _role_and_binding(name, None, [rule], from_.subject)
        self._servers[0].admin.call("DELETE", path_of(binding))
        self.wait_for(from_.name, rule, allowed=False)

    def wait_for(
        self,
        user: str,
        *rules: Rule,
        groups: Sequence[str] = (),
        namespace: str | None = None,
        allowed: bool = True,
    ) -> None:
        """Wait until every server answers so about each rule."""
        reviews = [_review(user, rule, groups=groups, namespace=namespace) for rule in rules]
        for server in self._servers:
            with server.admin.connect() as connection:
                for review in reviews:
                    poll(
                        partial(_is_answered, connection, review, allowed=allowed),
                        f"{server.options.name} does not see {json.dumps(review['spec'])}",
                    )


@dataclass(frozen=True, slots=True)
class Doors:
    """The two ways into one cluster: ours, before a server without the feature, and the native."""

    ours: Callable[[Credential], ApiClient]
    native: Callable[[Credential], ApiClient]
    _clients: dict[Credential, tuple[ApiClient, ApiClient]] = field(default_factory=dict)

    def clients(self, caller: Caller) -> tuple[ApiClient, ApiClient]:
        """Return a caller's client of each door; they are kept, for making one takes a while."""
        known = self._clients.get(caller.credential)
        if known is None:
            known = self.ours(caller.credential), self.native(caller.credential)
            self._clients[caller.credential] = known
        return known

    def ask(
        self,
        caller: Caller,
        method: str,
        target: str,
        headers: Sequence[Header] = (),
        body: Manifest | None = None,
    ) -> APIResponse:
        """Ask at both doors and return our answer, which must be the native one."""
        ours, native = (
            client.request(method, target, headers=headers, body=body)
            for client in self.clients(caller)
        )
        assert ours.status == native.status, (ours, native)
        if not is_success(ours):
            assert ours.body == native.body
        return ours

    def acting(self, caller: Caller, headers: Sequence[Header] = ()) -> dict[str, object]:
        """Return whom the cluster takes the caller for, which must be the same at both doors."""
        ours, native = (who_am_i(client, *headers) for client in self.clients(caller))
        assert ours == native
        return ours


def is_success(response: APIResponse) -> bool:
    """Tell whether the request was carried out."""
    return 200 <= response.status < 300


def is_refused_impersonation(response: APIResponse) -> bool:
    """Tell whether it was the impersonation that was refused, not the target's own deed."""
    return response.status == 403 and " cannot impersonate" in message_of(response)


def message_of(response: APIResponse) -> str:
    """Return the message of a refusal."""
    text: str = response.json()["message"]
    return text


def poll(condition: Callable[[], bool], complaint: str) -> None:
    """Wait until the condition holds; fail with the complaint when patience ends."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, complaint
        time.sleep(POLL_SECONDS)


def _is_answered(admin: ApiConnection, review: Manifest, *, allowed: bool) -> bool:
    answer = admin.request("POST", REVIEWS, body=review).json()
    is_allowed: bool = answer["status"]["allowed"]
    return is_allowed == allowed


def _role_and_binding(
    name: str, namespace: str | None, rules: Sequence[Rule], subject: Manifest
) -> tuple[Manifest, Manifest]:
    kind = "ClusterRole" if namespace is None else "Role"
    metadata = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    version = {"apiVersion": f"{RBAC}/v1", "metadata": metadata}
    return (
        {**version, "kind": kind, "rules": list(rules)},
        {
            **version,
            "kind": f"{kind}Binding",
            "subjects": [subject],
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
        },
    )


def _review(user: str, rule: Rule, *, groups: Sequence[str], namespace: str | None) -> Manifest:
    """Return the question whether the last thing the rule grants is allowed."""
    verb = rule["verbs"][-1]
    if "nonResourceURLs" in rule:
        about = {"nonResourceAttributes": {"verb": verb, "path": rule["nonResourceURLs"][-1]}}
    else:
        resource, _, subresource = rule["resources"][-1].partition("/")
        attributes = {
            "verb": verb,
            "group": rule["apiGroups"][-1],
            "resource": resource,
            "subresource": subresource,
            "name": rule.get("resourceNames", [""])[-1],
            "namespace": namespace or "",
        }
        about = {"resourceAttributes": attributes}
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "groups": list(groups), **about},
    }
