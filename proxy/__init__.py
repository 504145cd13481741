"""Understudy: an impersonating reverse proxy in front of kube-apiserver.

Read `pipeline/pipeline.py` first: it is the request path. `core` makes every decision without I/O.
"""
