"""Understudy: a proxy before kube-apiserver that decides who may act as whom.

Read `pipeline.py` first: it is the path of a request. `core` holds every decision and does no I/O.
"""
