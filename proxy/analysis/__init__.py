"""Analysis commands: they query a cluster with the operator's kubeconfig, and print the results.

This package is not part of serving: it holds none of the proxy's credentials, and decides nothing.
"""
