"""The programs of the control plane, and their version."""

from collections.abc import Callable

KUBERNETES_VERSION = "1.37.1"

ETCD = "etcd"
KUBE_APISERVER = "kube-apiserver"
KUBECTL = "kubectl"
PROGRAMS = (ETCD, KUBE_APISERVER, KUBECTL)

# Prints one line of progress.
Announce = Callable[[str], None]
