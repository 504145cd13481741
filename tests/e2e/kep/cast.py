"""Fresh callers and the objects around them, so that no test meets another's."""

from collections.abc import Sequence
from typing import Any

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.objects import (
    create_namespace,
    create_node,
    create_pod,
    create_service_account,
    token_for,
)
from tests.support.control_plane import fresh_name
from tests.support.impersonation import Caller, user_subject


class Cast:
    """Makes callers, nodes, pods and namespaces."""

    def __init__(self, control_plane: ControlPlane, admin: ApiClient) -> None:
        self._control_plane = control_plane
        self._admin = admin

    def user(
        self, prefix: str = "user", *, groups: Sequence[str] = (), uid: str | None = None
    ) -> Caller:
        """Return a user with a certificate and no rights."""
        name = fresh_name(prefix)
        return self.named(name, groups=groups, uid=uid)

    def named(self, name: str, *, groups: Sequence[str] = (), uid: str | None = None) -> Caller:
        """Return a user of exactly this name."""
        credential = self._control_plane.clients.issue_client(name, groups=groups, uid=uid)
        return Caller(name, credential, user_subject(name))

    def namespace(self) -> str:
        """Create a namespace and return its name."""
        name = fresh_name("namespace")
        create_namespace(self._admin, name)
        return name

    def node(self) -> str:
        """Register a Node and return its name."""
        name = fresh_name("node")
        create_node(self._admin, name)
        return name

    def pod(self, namespace: str, *, node: str | None = None, account: str = "default") -> Any:
        """Create a Pod, on a Node of its own unless one is given, and return it."""
        node = node or self.node()
        name = fresh_name("pod")
        return create_pod(self._admin, namespace, name, node=node, service_account=account)

    def service_account(self, *, node: str | None = None, namespace: str | None = None) -> Caller:
        """Return a service account without rights; on a node, its token is that of a pod there."""
        namespace, name = namespace or self.namespace(), fresh_name("robot")
        create_service_account(self._admin, namespace, name)
        return self.account_on(namespace, name, node=node)

    def account_on(self, namespace: str, name: str, *, node: str | None) -> Caller:
        """Return an existing service account as a pod on that node proves it, or as no pod does."""
        pod = None if node is None else self.pod(namespace, node=node, account=name)
        token = token_for(self._admin, namespace, name, pod=pod)
        subject = {"kind": "ServiceAccount", "namespace": namespace, "name": name}
        return Caller(f"system:serviceaccount:{namespace}:{name}", token, subject, node)
