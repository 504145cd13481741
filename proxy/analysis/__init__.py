"""Advice to people: a cluster asked with their own kubeconfig, and answers in readable form.

No part of serving: it holds none of the proxy's credentials and decides nothing.
"""
