"""The pod that a service account's token is bound to, as the token's extras name it."""

from typing import NamedTuple

from proxy.core.identity import NODE_NAME_KEY, Identity, is_subdomain, service_account

_POD_NAME_KEY = "authentication.kubernetes.io/pod-name"
_POD_UID_KEY = "authentication.kubernetes.io/pod-uid"


class BoundPod(NamedTuple):
    """A pod and the service account it runs as; the uid tells it from another of its name."""

    namespace: str
    account: str
    name: str
    uid: str


def pod_without_node(caller: Identity) -> BoundPod | None:
    """Return the pod of a caller whose token names a pod but no node; None for all others.

    API servers before 1.30 name no node. Where one is named, even oddly, there is nothing to find
    out: the token's word counts.
    """
    account = service_account(caller.name)
    extra = dict(caller.extra)
    if account is None or NODE_NAME_KEY in extra:
        return None
    names, uids = extra.get(_POD_NAME_KEY, ()), extra.get(_POD_UID_KEY, ())
    # Exactly one of each: who claims two pods is not known to run in either.
    if len(names) != 1 or len(uids) != 1 or not uids[0] or not is_subdomain(names[0]):
        return None
    return BoundPod(account.namespace, account.name, names[0], uids[0])
