"""A week of audit events, made up line by line: as long as wanted, and never in memory.

Fifty operators act as users, twenty deployers as service accounts of their team, an agent on each
of two hundred nodes as its node, one deployer works in hundreds of preview namespaces, and somebody
is root now and then. One event in five is of nobody but its user.
"""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import orjson

_START = datetime(2026, 11, 9, tzinfo=UTC)
_WEEK_SECONDS = 7 * 86400.0
_AUTHENTICATED = "system:authenticated"
_NODE_KEY = "authentication.kubernetes.io/node-name"
_RESOURCES = (
    ("", "pods", ""),
    ("", "pods", "log"),
    ("", "configmaps", ""),
    ("", "secrets", ""),
    ("apps", "deployments", ""),
    ("apps", "deployments", "scale"),
    ("batch", "jobs", ""),
    ("networking.k8s.io", "ingresses", ""),
)
_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete")
_CODES = (200, 200, 200, 201, 403, 404)

Event = dict[str, object]


def synthetic_lines(count: int, *, seed: int = 1) -> Iterator[bytes]:
    """Yield so many lines of a log, spread over a week."""
    chance = random.Random(seed)
    for number in range(count):
        moment = _START + timedelta(seconds=_WEEK_SECONDS * number / count)
        event = _event(chance, number, f"{moment.isoformat(timespec='microseconds')[:-6]}Z")
        yield orjson.dumps(event) + b"\n"


def _event(chance: random.Random, number: int, moment: str) -> Event:
    roll = chance.random()
    user, rest = _operator(chance) if roll < 0.5 else _other(chance, roll)
    if roll > 0.8:
        rest.pop("impersonatedUser")
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": f"00000000-0000-4000-8000-{number:012d}",
        "stage": "ResponseComplete",
        "user": user,
        "sourceIPs": ["10.1.2.3"],
        "userAgent": "kubectl/v1.37.1 (linux/amd64) kubernetes/0000000",
        "responseStatus": {"metadata": {}, "code": chance.choice(_CODES)},
        "requestReceivedTimestamp": moment,
        "stageTimestamp": moment,
        "annotations": {
            "authorization.k8s.io/decision": "allow",
            "authorization.k8s.io/reason": 'RBAC: allowed by ClusterRoleBinding "developers"',
            "kube-understudy.io/response-bytes": "1234",
        },
        **rest,
    }


def _operator(chance: random.Random) -> tuple[Event, Event]:
    """Somebody acts as one of a dozen users, in a few namespaces; a part has its grants already."""
    number = chance.randrange(50)
    target = {
        "username": f"user-{number * 6 + chance.randrange(12)}",
        "groups": [f"team-{number % 12}", _AUTHENTICATED],
    }
    rest: Event = {"impersonatedUser": target}
    if number < 10:
        rest["authenticationMetadata"] = {"impersonationConstraint": "impersonate:user-info"}
    namespace = f"team-{(number + chance.randrange(3)) % 12}"
    return _user(f"operator-{number}@example.com"), {**rest, **_asked(chance, namespace)}


def _other(chance: random.Random, roll: float) -> tuple[Event, Event]:
    if roll < 0.6:
        node = f"node-{chance.randrange(200)}"
        user = {**_user("system:serviceaccount:agents:agent"), "extra": {_NODE_KEY: [node]}}
        target = {"username": f"system:node:{node}", "groups": [_AUTHENTICATED]}
        return user, {"impersonatedUser": target, **_asked(chance, "")}
    if roll < 0.62:
        target = {"username": "root", "groups": ["system:masters", _AUTHENTICATED]}
        return _user("breaker"), {"impersonatedUser": target, **_asked(chance, "kube-system")}
    team = f"team-{chance.randrange(20)}"
    caller = f"system:serviceaccount:{team}:deployer"
    namespace = team
    if roll < 0.67:
        caller, namespace = "system:serviceaccount:ci:previews", f"preview-{chance.randrange(400)}"
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{team}", _AUTHENTICATED]
    target = {"username": f"system:serviceaccount:{team}:app", "groups": groups}
    return _user(caller), {"impersonatedUser": target, **_asked(chance, namespace)}


def _user(name: str) -> Event:
    return {"username": name, "uid": "u-1", "groups": ["developers", _AUTHENTICATED]}


def _asked(chance: random.Random, namespace: str) -> Event:
    if chance.random() < 0.1:
        uri = chance.choice(("/api", "/version", f"/apis/group-{chance.randrange(40)}.io/v1"))
        return {"requestURI": uri, "verb": "get"}
    group, resource, subresource = chance.choice(_RESOURCES)
    name = f"{resource}-{chance.randrange(1_000_000)}"
    root = f"/apis/{group}/v1" if group else "/api/v1"
    within = f"/namespaces/{namespace}" if namespace else ""
    reference = {
        "resource": resource,
        "namespace": namespace,
        "name": name,
        "apiGroup": group,
        "apiVersion": "v1",
        "subresource": subresource,
    }
    return {
        "requestURI": f"{root}{within}/{resource}/{name}/{subresource}".rstrip("/"),
        "verb": chance.choice(_VERBS),
        "objectRef": {key: value for key, value in reference.items() if value},
    }
