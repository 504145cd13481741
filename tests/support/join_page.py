"""Metrics that `understudy audit join` writes for Prometheus, from a run of the command."""

import json
import subprocess
import sys
from pathlib import Path

_PROXY_USER = "forwarder"
_STAMP = "2026-11-16T04:00:00.000000Z"


def join_page(directory: Path) -> str:
    """Return the metrics of a join of one request, which has every series of every join."""
    event = {
        "kind": "Event",
        "stage": "ResponseComplete",
        "auditID": "id",
        "verb": "list",
        "requestURI": "/api/v1/pods",
        "requestReceivedTimestamp": _STAMP,
        "stageTimestamp": _STAMP,
        "responseStatus": {"code": 200},
    }
    ours, cluster, page = (directory / name for name in ("ours.log", "cluster.log", "join.prom"))
    ours.write_text(json.dumps({**event, "user": {"username": "bob"}}))
    impersonated = {"user": {"username": _PROXY_USER}, "impersonatedUser": {"username": "bob"}}
    cluster.write_text(json.dumps({**event, **impersonated}))
    command = [sys.executable, "-m", "proxy", "audit", "join", "--proxy-user", _PROXY_USER]
    subprocess.run([*command, "--metrics", page, ours, cluster], capture_output=True, check=True)
    return page.read_text()
