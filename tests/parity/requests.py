"""What is asked for: methods, targets and bodies that change nothing, whoever sends them.

Both sides share their objects, so a request that left something behind would be answered
otherwise the second time. What could change anything is a dry run.
"""

import json
from dataclasses import dataclass
from random import Random
from urllib.parse import quote

from tests.go_oracle.selectors import make_field_selector, make_label_selector
from tests.go_oracle.targets import make_target
from tests.parity.cases import Header

_DRY = "dryRun=All"
_NO_STREAM = "resourceVersionMatch=NotOlderThan"
"""Makes a watch an error of its own, told at once, after it was authorized as a watch."""
_JSON = (b"Content-Type", b"application/json")
_MERGE = (b"Content-Type", b"application/merge-patch+json")

_COLLECTIONS = (
    *("/api/v1/pods", "/api/v1/namespaces/parity/pods", "/api/v1/namespaces/other/pods"),
    *("/api/v1/nodes", "/api/v1/namespaces", "/api/v1/namespaces/parity/secrets"),
    *("/apis/apps/v1/deployments", "/apis/apps/v1/namespaces/parity/deployments"),
    *("/apis/example.com/v1/widgets", "/api/v1/namespaces/parity/", "//api/v1/pods"),
    *("/api/v1/namespaces/parity/po%64s", "/api/v1//pods", "/apis/apps/v1//x"),
)
_OBJECTS = (
    *("/api/v1/namespaces/parity/pods/web", "/api/v1/namespaces/parity/pods/none"),
    *("/api/v1/namespaces/parity/pods/web/status", "/api/v1/nodes/node-1", "/api/v1/nodes/node-2"),
    *("/api/v1/namespaces/parity", "/api/v1/namespaces/parity/status"),
    *("/api/v1/namespaces/parity/pods/none/log", "/api/v1/namespaces/parity/pods/none/exec"),
    *(
        "/api/v1/namespaces/parity/pods/none/attach",
        "/apis/apps/v1/namespaces/parity/deployments/x",
    ),
    *("/apis/apps/v1/namespaces/parity/deployments/x/scale", "/api/v1/namespaces/parity/finalize"),
    *("/api/v1/namespaces/parity/services/none/proxy/a/../b", "/api/v1/nodes/none/proxy/metrics"),
    *("/api/v1/namespaces/parity/pods/%3Cx%3E&y", "/api/v1/namespaces/parity/pods/a%22b"),
    *("/apis/subresources.kubevirt.io/v1/namespaces/parity/virtualmachines/vm/console",),
)
_PATHS = (
    *("/version", "/healthz", "/livez/ping", "/api", "/apis", "/api/v1", "/apis/apps", "/", "//"),
    *("/version/", "/none", "/%3Cb%3E&", "/a%22b", "/apis/apps/", "/API/v1/pods", "/api/v1/"),
)
_PATH_VERBS = (
    *("/api/v1/watch/pods", "/api/v1/watch/namespaces/parity/pods", "/api/v1/watch/nodes/node-1"),
    *("/api/v1/proxy/nodes/none", "/api/v1/watch", "/apis/apps/v1/watch/deployments"),
    *("/apis/apps/v1/proxy",),
)
_WATCHES = ("watch", "watch=1", "watch=true", "watch=0", "watch=false", "watch=no", "watch=")
_FIELDS = (
    *("metadata.name=web", "metadata.name==web", "metadata.name!=web", "spec.nodeName=node-1"),
    *("metadata.name=web,spec.nodeName=node-1", "status.phase=Running", "metadata.name=a/b"),
)
_LABELS = (
    *("app=web", "app==web", "app in (web,db)", "app notin (web)", "app", "!app", "tier!=x"),
    *("app=web,tier", "app>1", "in", "a b"),
)
_OTHERS = ("limit=1", "limit=x", "a;b=c", "x=%zz", "pretty=1", "pretty=0", "timeoutSeconds=x")
_AGENTS = (b"kubectl/v1.37.1", b"curl/8.0", b"Mozilla/5.0 (X11)", b"Mozilla/4.0", b"Wget/1", b"")
_ACCEPTS = (
    *(b"application/json", b"*/*", b"application/json;pretty=1", b"text/html", b"a/b"),
    *(b"application/yaml", b"application/vnd.kubernetes.protobuf", b"application/json;as=Table"),
    b"application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
)


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent, apart from who sends it as whom."""

    method: bytes
    target: bytes
    headers: tuple[Header, ...] = ()
    body: bytes | None = None


def make_request(random: Random) -> Request:
    """Return a request; one in ten has a target from the fuzzer's kitchen."""
    kind = random.random()
    if kind < 0.1:
        method = random.choice((b"GET", b"GET", b"GET", b"HEAD", b"OPTIONS"))
        request = Request(method, _harmless(make_target(random)))
    elif kind < 0.62:
        request = _read(random)
    elif kind < 0.77:
        request = Request(random.choice((b"GET",) * 4 + (b"HEAD", b"POST", b"PUT")), _path(random))
    elif kind < 0.81:
        request = Request(b"GET", f"{random.choice(_PATH_VERBS)}?{_NO_STREAM}".encode())
    elif kind < 0.84:
        request = _upgrade(random)
    else:
        request = _write(random)
    headers = request.headers
    if random.random() < 0.25:
        headers += ((b"User-Agent", random.choice(_AGENTS)),)
    if random.random() < 0.2:
        headers += ((b"Accept", random.choice(_ACCEPTS)),)
    return Request(request.method, request.target, headers, request.body)


def review_of_self() -> Request:
    """Return the request that anybody may send and that says who they are."""
    document = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    target = b"/apis/authentication.k8s.io/v1/selfsubjectreviews"
    return Request(b"POST", target, (_JSON,), json.dumps(document).encode())


def _read(random: Random) -> Request:
    method = random.choice((b"GET",) * 15 + (b"HEAD", b"OPTIONS"))
    if random.random() < 0.4:
        return Request(method, random.choice(_OBJECTS).encode())
    pairs = []
    if random.random() < 0.3:
        pairs += [random.choice(_WATCHES), _NO_STREAM]
    if random.random() < 0.3:
        odd = random.random() < 0.3
        selector = make_field_selector(random) if odd else random.choice(_FIELDS)
        pairs.append(f"fieldSelector={quote(selector)}")
    if random.random() < 0.3:
        odd = random.random() < 0.3
        selector = make_label_selector(random) if odd else random.choice(_LABELS)
        pairs.append(f"labelSelector={quote(selector)}")
    if random.random() < 0.2:
        pairs.append(random.choice(_OTHERS))
    return Request(method, _with_query(random.choice(_COLLECTIONS), pairs))


def _upgrade(random: Random) -> Request:
    """Ask for a terminal in a pod that is not there."""
    web_socket = random.random() < 0.5
    protocol = b"websocket" if web_socket else b"SPDY/3.1"
    headers: tuple[Header, ...] = ((b"Connection", b"Upgrade"), (b"Upgrade", protocol))
    if web_socket:
        key = (b"Sec-WebSocket-Key", b"dGhlIHNhbXBsZSBub25jZQ==")
        headers += (key, (b"Sec-WebSocket-Version", b"13"))
    subresource = random.choice(("exec", "attach", "portforward"))
    target = f"/api/v1/namespaces/parity/pods/none/{subresource}?command=true"
    return Request(b"GET" if web_socket else b"POST", target.encode(), headers)


def _path(random: Random) -> bytes:
    pairs = [random.choice(_OTHERS)] if random.random() < 0.1 else []
    return _with_query(random.choice(_PATHS), pairs)


def _write(random: Random) -> Request:
    kind = random.random()
    if kind < 0.35:
        return review_of_self()
    if kind < 0.55:
        return Request(b"POST", _dry("/api/v1/namespaces/parity/pods"), (_JSON,), _pod_body())
    if kind < 0.7:
        patch = json.dumps({"metadata": {"labels": {"parity": "yes"}}}).encode()
        return Request(b"PATCH", _dry(random.choice(_OBJECTS)), (_MERGE,), patch)
    if kind < 0.85:
        targets = _OBJECTS if random.random() < 0.6 else _COLLECTIONS
        return Request(b"DELETE", _dry(random.choice(targets)))
    method = random.choice((b"PUT", b"POST"))
    return Request(method, _dry(random.choice(_OBJECTS)), (_JSON,), b"{}")


def _pod_body() -> bytes:
    # Without a name: natively the audit event takes a name from the body, which we never read.
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "parity-"},
        "spec": {"containers": [{"name": "main", "image": "none"}]},
    }
    return json.dumps(pod).encode()


def _dry(path: str) -> bytes:
    return _with_query(path, [_DRY])


def _with_query(path: str, pairs: list[str]) -> bytes:
    return (f"{path}?{'&'.join(pairs)}" if pairs else path).encode()


def _harmless(target: bytes) -> bytes:
    """Keep a strange target from opening a stream, as far as its query is one."""
    if b"watch" not in target:
        return target
    return target + (b"&" if b"?" in target else b"?") + _NO_STREAM.encode()
