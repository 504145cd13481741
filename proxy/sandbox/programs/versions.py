"""Which programs make up the control plane, and in which version."""

from collections.abc import Callable

KUBERNETES_VERSION = "1.37.1"

ETCD = "etcd"
KUBE_APISERVER = "kube-apiserver"
KUBECTL = "kubectl"
PROGRAMS = (ETCD, KUBE_APISERVER, KUBECTL)

# Tells a person one line about progress.
Announce = Callable[[str], None]
