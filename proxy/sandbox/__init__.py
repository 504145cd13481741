"""The embedded control plane: a real etcd and kube-apiserver for `dev`, the demo and the tests.

Nothing in a production path may import it.
"""
