"""The table of actors: everybody a request can be carried out as, and how they come to be that."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote

from proxy.sandbox.aggregated.server import GROUP as CONSOLES
from tests.e2e.identity.place import RED, TEAM, Place
from tests.e2e.kep.cast import Cast
from tests.support.impersonation import (
    RBAC,
    Caller,
    Header,
    Rights,
    Rule,
    as_node,
    as_user,
    may,
    may_be,
    may_do,
    may_impersonate,
)

# Has rules from the start. Those of roles such as `view` are put together by a controller.
BINDABLE = "system:kube-scheduler"
AUTHENTICATED = "system:authenticated"
NODES = ("system:nodes", AUTHENTICATED)
EXTRA = ((TEAM, RED), (TEAM, "deep blue"), ("acme.io/reason", "grün & 100%"))
_FLAGS = {
    "Impersonate-User": "--as",
    "Impersonate-Uid": "--as-uid",
    "Impersonate-Group": "--as-group",
}


@dataclass(frozen=True, slots=True)
class Actor:
    """Somebody to the cluster: a caller as itself, or as whom its headers ask for."""

    caller: Caller
    username: str
    groups: tuple[str, ...]
    wanted: Sequence[Header] = ()

    @property
    def is_node(self) -> bool:
        """Tell whether the Node authorizer and NodeRestriction know it, by its group."""
        return "system:nodes" in self.groups

    @property
    def is_of_the_red_team(self) -> bool:
        """Tell whether its extras say so."""
        return any(value == RED for _, value in self.wanted)

    def kubectl_flags(self) -> list[str]:
        """Return what kubectl is told to ask for the same identity."""
        return [_flag(*header) for header in self.wanted]


def _flag(name: str, value: str) -> str:
    if name in _FLAGS:
        return f"{_FLAGS[name]}={value}"
    return f"--as-user-extra={unquote(name.removeprefix('Impersonate-Extra-'))}={value}"


@dataclass(frozen=True, slots=True)
class Stage:
    """What actors are made from."""

    place: Place
    cast: Cast
    rights: Rights
    kubelet: Caller
    """Holds the near node's own certificate."""

    def impersonator(self, caller: Caller, mode: str, *identities: Rule) -> Caller:
        """Let a caller be these in a constrained mode, for every action here."""
        every = may_do(mode, "get", "list", "create", "patch", resources=["*"], group="*")
        self.rights.grant(caller, *identities, every)
        return caller


def _itself(caller: Caller, *groups: str) -> Actor:
    return Actor(caller, caller.name, (*groups, AUTHENTICATED))


def _certificate_user(stage: Stage) -> Actor:
    return _itself(stage.cast.user("alice", groups=("dev", "ops"), uid="42"), "dev", "ops")


def _account_groups(namespace: str) -> tuple[str, ...]:
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")


def _service_account(stage: Stage) -> Actor:
    """Bound to a pod, so that its token is full of extras."""
    namespace = stage.place.namespace
    agent = stage.cast.service_account(namespace=namespace, node=stage.place.near)
    return _itself(agent, *_account_groups(namespace))


def _node_certificate(stage: Stage) -> Actor:
    return _itself(stage.kubelet, "system:nodes")


def _impersonated_user(stage: Stage) -> Actor:
    bob = stage.cast.user("bob").name
    users = may_be("user-info", "users", bob)
    deputy = stage.impersonator(stage.cast.user("deputy"), "user-info", users)
    return Actor(deputy, bob, (AUTHENTICATED,), as_user(bob))


def _whole(name: str, group: str) -> list[Header]:
    extra = [(quote(key, safe=""), value) for key, value in EXTRA]
    return as_user(name, groups=["dev", group], uid="bob-42", extra=extra)


def _impersonated_whole_user(stage: Stage) -> Actor:
    bob, auditors = stage.cast.user("bob").name, stage.place.auditors
    deputy = stage.impersonator(
        stage.cast.user("deputy"),
        "user-info",
        may_be("user-info", "users", bob),
        may_be("user-info", "groups", "dev", auditors),
        may_be("user-info", "uids", "bob-42"),
        *(may_be("user-info", f"userextras/{key}", value) for key, value in EXTRA),
    )
    return Actor(deputy, bob, ("dev", auditors, AUTHENTICATED), _whole(bob, auditors))


def _user_by_legacy(stage: Stage) -> Actor:
    bob, auditors = stage.cast.user("bob").name, stage.place.auditors
    former = stage.cast.user("former")
    stage.rights.grant(
        former,
        may_impersonate("users", bob),
        may_impersonate("groups", "dev", auditors),
        may_impersonate("uids", "bob-42"),
        *(may_impersonate(f"userextras/{key}", value) for key, value in EXTRA),
    )
    return Actor(former, bob, ("dev", auditors, AUTHENTICATED), _whole(bob, auditors))


def _impersonated_service_account(stage: Stage) -> Actor:
    namespace = stage.place.namespace
    robot = stage.cast.service_account(namespace=namespace)
    accounts = may_be("serviceaccount", "serviceaccounts", robot.subject["name"])
    deputy = stage.impersonator(stage.cast.user("deputy"), "serviceaccount", accounts)
    groups = (*_account_groups(namespace), AUTHENTICATED)
    return Actor(deputy, robot.name, groups, as_user(robot.name))


def _node_by_associated_node(stage: Stage) -> Actor:
    near = stage.place.near
    agent = stage.cast.service_account(namespace=stage.place.namespace, node=near)
    stage.impersonator(agent, "associated-node", may_be("associated-node", "nodes"))
    return Actor(agent, f"system:node:{near}", NODES, as_node(near))


def _node_by_arbitrary_node(stage: Stage) -> Actor:
    near = stage.place.near
    nodes = may_be("arbitrary-node", "nodes", near)
    deputy = stage.impersonator(stage.cast.user("deputy"), "arbitrary-node", nodes)
    return Actor(deputy, f"system:node:{near}", NODES, as_node(near))


def _node_by_legacy(stage: Stage) -> Actor:
    """A node in name only: legacy impersonation gives no group but those that were asked for."""
    former, near = stage.cast.user("former"), stage.place.near
    stage.rights.grant(former, may_impersonate("users", f"system:node:{near}"))
    return Actor(former, f"system:node:{near}", (AUTHENTICATED,), as_node(near))


ACTORS: Mapping[str, Callable[[Stage], Actor]] = {
    "certificate user": _certificate_user,
    "service account": _service_account,
    "node certificate": _node_certificate,
    "impersonated user": _impersonated_user,
    "impersonated user with groups, uid and extras": _impersonated_whole_user,
    "the same by legacy": _user_by_legacy,
    "impersonated service account": _impersonated_service_account,
    "node by associated-node": _node_by_associated_node,
    "node by arbitrary-node": _node_by_arbitrary_node,
    "node by legacy": _node_by_legacy,
}


def make_actors(stage: Stage) -> Mapping[str, Actor]:
    """Return everybody, with the same few rights of their own by RBAC."""
    actors = {name: make(stage) for name, make in ACTORS.items()}
    requests = may("create", resources=["certificatesigningrequests"], group="certificates.k8s.io")
    bind_one: Rule = {
        **may("bind", resources=["clusterroles"], group=RBAC),
        "resourceNames": [BINDABLE],
    }
    escalate_one: Rule = {
        **may("escalate", resources=["roles"], group=RBAC),
        "resourceNames": ["escalating"],
    }
    for username in sorted({actor.username for actor in actors.values()}):
        stage.rights.grant(username, requests, bind_one)
        stage.rights.grant(
            username,
            may("create", resources=["configmaps"]),
            may("create", "patch", resources=["roles", "rolebindings"], group=RBAC),
            escalate_one,
            may("get", resources=["virtualmachines/console"], group=CONSOLES),
            namespace=stage.place.namespace,
        )
    return actors
