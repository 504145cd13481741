"""Clients of Kubernetes APIs: kubeconfigs, in-cluster credentials, bounded HTTP sessions."""
