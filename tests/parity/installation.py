"""Giving callers their credentials and rights, and waiting until both servers know of them."""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.identities import BearerToken, Credential, TokenUser
from proxy.sandbox.objects import token_for
from tests.parity.arena import ACTING_ROLE, Arena
from tests.parity.cases import NAMESPACE, Caller, CallerKind, CaseSet, Half, RbacRule, Rights
from tests.parity.renaming import FRESH, TOKEN_USER, Renaming, fresh_suffix
from tests.parity.wanted import ACTING_GROUP, ALICE, ROBOT
from tests.parity.wire import Credentials

Manifest = Mapping[str, Any]

_RBAC_VERSION = "rbac.authorization.k8s.io/v1"
_RBAC_GROUP = "rbac.authorization.k8s.io"
_WITNESS = f"witness-{FRESH}"
_READ_PODS = RbacRule(("get",), ("",), ("pods",))
_NOBODY = TokenUser(TOKEN_USER)
_SEEN_SECONDS = 10.0
_POLL_SECONDS = 0.005


def install(arena: Arena, case_set: CaseSet) -> tuple[Renaming, dict[Caller, Credentials]]:
    """Make the set's callers real under fresh names, and return how they prove who they are."""
    token_user = _NOBODY
    if any(caller.kind is CallerKind.STATIC_TOKEN for caller in case_set.callers):
        token_user = next(arena.token_users)
    renaming = Renaming(fresh_suffix(), token_user.name)
    with _Writer(arena.servers[0], renaming) as writer:
        credentials = {
            # One authority certifies all servers here, the proxy included.
            caller: Credentials(
                _credential(arena, writer, caller, token_user.token),
                ca_pem=arena.control_plane.servers.certificate_pem,
            )
            for caller in case_set.callers
        }
        if case_set.half is Half.RBAC:
            for manifest in _rbac_objects(case_set.callers):
                writer.create(manifest)
            for server in arena.servers:
                _wait_until_seen(server, renaming)
    policies = {caller.username: caller.rights.policy for caller in case_set.callers}
    arena.rulebook.replace(renaming, policies)
    for side in (arena.reference, arena.subject):
        if side.recording is not None:
            side.recording.take()
    return renaming, credentials


class _Writer:
    """Creates objects of the plan on one connection."""

    def __init__(self, server: ApiServer, renaming: Renaming) -> None:
        self.server = server
        self.renaming = renaming
        self._connection = server.admin.connect()

    def __enter__(self) -> "_Writer":
        self._connection.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._connection.__exit__(*error)

    def create(self, manifest: Manifest) -> Any:
        """Create an object whose names may hold placeholders, and return it."""
        text = self.renaming.realise(json.dumps(manifest, ensure_ascii=False))
        response = self._connection.request("POST", _collection(manifest), body=text.encode())
        assert response.status == 201, f"cannot create {text}: {response.body!r}"
        return response.json()


def _credential(
    arena: Arena, writer: _Writer, caller: Caller, static_token: BearerToken
) -> Credential:
    name = writer.renaming.realise(caller.name)
    match caller.kind:
        case CallerKind.CERTIFICATE:
            groups = [writer.renaming.realise(group) for group in caller.groups]
            return arena.control_plane.clients.issue_client(name, groups=groups, uid=caller.uid)
        case CallerKind.STATIC_TOKEN:
            return static_token
        case CallerKind.NOBODY:
            return BearerToken("nonsense")
        case CallerKind.SERVICE_ACCOUNT | CallerKind.POD:
            writer.create(_object("ServiceAccount", name, namespace=NAMESPACE))
            pod = None
            if caller.kind is CallerKind.POD:
                pod = writer.create(_pod(name, caller.node))
            return token_for(writer.server.admin, NAMESPACE, name, pod=pod)


def _rbac_objects(callers: Sequence[Caller]) -> Iterable[Manifest]:
    """Yield roles and bindings, at last those of a witness who shows that all have arrived."""
    by_rights: dict[Rights, list[Caller]] = {}
    for caller in callers:
        by_rights.setdefault(caller.rights, []).append(caller)
    for number, (rights, holders) in enumerate(by_rights.items()):
        subjects = [_subject(caller) for caller in holders]
        name = f"rights-{number}-{FRESH}"
        if rights.cluster_rules:
            yield from _granted("ClusterRole", name, rights.cluster_rules, subjects)
        if rights.namespaced_rules:
            yield from _granted("Role", name, rights.namespaced_rules, subjects)
        if rights.is_bound_to_missing_role:
            yield _binding("ClusterRole", f"missing-{name}", f"missing-{name}", subjects)
    acting = [
        _rbac_subject("User", ALICE),
        _rbac_subject("Group", ACTING_GROUP),
        {"kind": "ServiceAccount", "namespace": NAMESPACE, "name": ROBOT},
    ]
    yield _binding("ClusterRole", f"acting-{FRESH}", ACTING_ROLE, acting)
    witness = [_rbac_subject("User", _WITNESS)]
    yield from _granted("ClusterRole", _WITNESS, (_READ_PODS,), witness)
    yield from _granted("Role", _WITNESS, (RbacRule(("list",), ("",), ("pods",)),), witness)


def _granted(
    kind: str, name: str, rules: Sequence[RbacRule], subjects: list[Manifest]
) -> Iterable[Manifest]:
    role = _object(kind, name, namespace=NAMESPACE if kind == "Role" else None)
    yield {**role, "rules": [rule.manifest() for rule in rules]}
    yield _binding(kind, name, name, subjects)


def _binding(kind: str, name: str, role: str, subjects: list[Manifest]) -> Manifest:
    namespace = NAMESPACE if kind == "Role" else None
    return {
        **_object(f"{kind}Binding", name, namespace=namespace),
        "subjects": subjects,
        "roleRef": {"apiGroup": _RBAC_GROUP, "kind": kind, "name": role},
    }


def _subject(caller: Caller) -> Manifest:
    if caller.kind in {CallerKind.SERVICE_ACCOUNT, CallerKind.POD}:
        return {"kind": "ServiceAccount", "namespace": NAMESPACE, "name": caller.name}
    return _rbac_subject("User", caller.username)


def _rbac_subject(kind: str, name: str) -> Manifest:
    return {"kind": kind, "apiGroup": _RBAC_GROUP, "name": name}


def _object(kind: str, name: str, *, namespace: str | None = None) -> dict[str, Any]:
    version = "v1" if kind in {"ServiceAccount", "Pod"} else _RBAC_VERSION
    metadata = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    return {"apiVersion": version, "kind": kind, "metadata": metadata}


def _pod(service_account: str, node: str) -> Manifest:
    return {
        **_object("Pod", service_account, namespace=NAMESPACE),
        "spec": {
            "nodeName": node,
            "serviceAccountName": service_account,
            "containers": [{"name": "main", "image": "none"}],
        },
    }


def _collection(manifest: Manifest) -> str:
    version = manifest["apiVersion"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    namespace = manifest["metadata"].get("namespace")
    inside = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{inside}/{manifest['kind'].lower()}s"


def _wait_until_seen(server: ApiServer, renaming: Renaming) -> None:
    """Wait for the witness's rights. Each kind of object arrives in the order of its creation."""
    deadline = time.monotonic() + _SEEN_SECONDS
    with server.admin.connect() as connection:
        for verb in ("get", "list"):
            review = {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SubjectAccessReview",
                "spec": {
                    "user": renaming.realise(_WITNESS),
                    "resourceAttributes": {
                        "verb": verb,
                        "resource": "pods",
                        "namespace": NAMESPACE,
                    },
                },
            }
            path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
            while not connection.request("POST", path, body=review).json()["status"]["allowed"]:
                assert time.monotonic() < deadline, f"{server.options.name} sees no new rights"
                time.sleep(_POLL_SECONDS)
