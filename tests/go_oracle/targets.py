"""Request targets, from everyday to hostile: what URL, query and selector parsing must survive."""

from random import Random
from urllib.parse import quote

from tests.go_oracle.selectors import make_field_selector, make_label_selector

_PREFIXES = ("api", "apis", "apis", "api", "API", "apix")
_GROUPS = ("apps", "authentication.k8s.io", "example.com", "a", "", "watch", "api")
_VERSIONS = ("v1", "v1", "v1beta1", "", "v1 ", "watch")
_NAMESPACES = ("default", "kube-system", "a.b", "UPPER", "", "status", ".", "..", "namespaces")
_RESOURCES = (
    *("pods", "pods", "nodes", "secrets", "services", "namespaces", "deployments"),
    *("watch", "proxy", "", "status", "po'ds", 'po"ds', "p<o>d&s", "namespaces", "."),
)
_NAMES = (
    "x",
    "node1",
    "",
    "..",
    "status",
    "finalize",
    "x:80",
    "ü",
    "\u2603",
    "<x>",
    "a b",
    "watch",
)
_SUBRESOURCES = (
    *("status", "exec", "attach", "portforward", "log", "proxy", "scale", "console"),
    *("", "finalize", "ephemeralcontainers", "é"),
)
_PLAIN_PATHS = (
    *("/", "//", "/version", "/healthz", "/livez/ping", "/openapi/v2", "/metrics", "/api"),
    *("/apis", "/apis/", "/api/v1", "/api/v1/", "/apis/apps", "/apis/apps/v1", "//api/v1"),
    *("/debug/pprof/", "/debug/pprof", "/debug/pprof/heap", "/a/../b", "/.", "/api/v1/watch"),
    *("/apis/apps/v1/watch", "/api/v1/proxy", "/api/v1/watch/", "/é", '/"quoted"', "/<b>&"),
    *("/api/v1/watch/namespaces/x/pods", "/api/v1/namespaces/x/status", "/api/v1/namespaces"),
    *("/api/v1/namespaces/x/finalize/y", "/api/v1/proxy/nodes/x/metrics", "/api/v1/namespaces//"),
)
_STRANGE_TARGETS = (
    *(b"*", b"", b"api/v1/pods", b"http://example.com/api/v1/pods", b"HTTP://x/api", b"//"),
    *(b"example.com:443", b"/api/v1/pods#frag?watch=1", b"/api/v1/pods%", b"/%zz/v1/pods"),
    *(b"/api/v1/pods/%2", b"/api/v1/pods/%ff", b"/api/v1/pods/%00", b"/api/v1/pods/%0a"),
    *(b"/api/v1/pods/\xff", b"/api/v1/pods/\xc3\xbc", b"/api/v1/pods/%7f", b"/?%zz", b"/?#"),
    *(b"/api/v1/pods?fieldSelector=%ff", b"/api/v1/pods?a=%00", b"/api/v1/pods?watch=%ff"),
    *(b"///api/v1/pods", b"http:///x", b"/a:b", b"?", b"?watch", b"http://h", b"/\\x", b"/[x]"),
    *(b"/api/v1/pods?labelSelector=%zz&watch=1", b"/api/v1/pods?;watch=1", b"/%41pi/v1/pods"),
    *(b"/api%2fv1/pods", b"/api%252fv1/pods", b"/api/v1/%2fpods", b"%2fapi/v1/pods", b"/|^`{}"),
    *(b"/api/v1/p\x80", b"/\xe2\x80\xa8", b"/%e2%80%a8", b"/%C2%85", b"/%ed%a0%80", b"/%C2%A0x"),
)


def make_target(random: Random) -> bytes:
    """Return a target in origin form, or now and then one that is not."""
    kind = random.random()
    if kind < 0.04:
        return random.choice(_STRANGE_TARGETS)
    path = random.choice(_PLAIN_PATHS) if kind < 0.16 else _resource_path(random)
    encoded = _encode_path(random, path)
    if random.random() < 0.05:
        encoded = _damage(random, encoded)
    return encoded + _make_query(random) if random.random() < 0.6 else encoded


def _resource_path(random: Random) -> str:
    prefix = random.choice(_PREFIXES[: 4 if random.random() < 0.97 else None])
    segments = ["", prefix]
    if prefix == "apis":
        segments.append(_pick(random, _GROUPS, everyday=3))
    segments.append(_pick(random, _VERSIONS, everyday=3))
    if random.random() < 0.12:
        segments.append(random.choice(("watch", "proxy")))
    if random.random() < 0.45:
        segments += ["namespaces", _pick(random, _NAMESPACES, everyday=2)]
    segments.append(_pick(random, _RESOURCES, everyday=7))
    segments += _name_and_more(random)
    if random.random() < 0.04:
        segments.insert(random.randrange(1, len(segments)), random.choice(("", ".", "..")))
    return "/".join(segments)


def _name_and_more(random: Random) -> list[str]:
    kind = random.random()
    if kind < 0.45:
        return []
    if kind < 0.5:
        return [""]
    name = _pick(random, _NAMES, everyday=2)
    if kind < 0.75:
        return [name]
    subresource = _pick(random, _SUBRESOURCES, everyday=8)
    return [name, subresource, *["more", "", "of it"][: max(0, random.randrange(-6, 4))]]


def _pick(random: Random, options: tuple[str, ...], *, everyday: int) -> str:
    return random.choice(options[:everyday]) if random.random() < 0.85 else random.choice(options)


def _encode_path(random: Random, path: str) -> bytes:
    """Percent-encode what must be, and sometimes what need not be."""
    safe = "/:;=@!$&'()*+,~"
    if random.random() < 0.1:
        safe = random.choice(("/", "", "/<>\"'&{}|\\^`[]"))
    encoded = quote(path, safe=safe).encode()
    if encoded[:1] != b"/":
        encoded = b"/" + encoded.removeprefix(b"%2F")
    if random.random() < 0.15 and len(encoded) > 1:
        at = random.randrange(2, len(encoded) + 1)
        symbol = encoded[at - 1 : at]
        if symbol not in b"%" and b"%" not in encoded[max(0, at - 3) : at]:
            form = random.choice((b"%%%02x", b"%%%02X"))
            encoded = encoded[: at - 1] + form % symbol[0] + encoded[at:]
    return encoded


def _damage(random: Random, encoded: bytes) -> bytes:
    at = random.randrange(1, len(encoded) + 1)
    inserted = random.choice(
        (b";", b"%", b"%z1", b"%2f", b"%2F", b"//", b"/./", b"+", b"%20", b"=", b"%25", b"#", b":")
    )
    return encoded[:at] + inserted + encoded[at:]


_WATCHES = (
    "1",
    "true",
    "True",
    "0",
    "false",
    "FALSE",
    "fAlse",
    "",
    "no",
    "t",
    "2",
    " ",
    "%zz",
    "fal\u017fe",
    "\u0130",
)
_INTEGERS = (
    "1",
    "500",
    "0",
    "-1",
    "",
    "x",
    "1.5",
    "+7",
    "9223372036854775808",
    " 1",
    "0x10",
    "1_0",
    "9223372036854775807",
    "-9223372036854775808",
    "-9223372036854775809",
    "000000000000000000000000001",
    "\u0661",
)
_BOOLEANS = ("true", "false", "", "x", "1", "T", "False")
_OTHERS = (
    *("limit", "timeoutSeconds", "allowWatchBookmarks", "sendInitialEvents", "pretty", "continue"),
    *("resourceVersion", "resourceVersionMatch", "kind", "apiVersion", "x", "", "Watch", "watch "),
    *("includeUninitialized", "labelselector", "follow", "timeout", "shardSelector"),
)


def _make_query(random: Random) -> bytes:
    pairs = []
    for _ in range(random.choice((1, 1, 1, 2, 2, 3, 4))):
        pair = _make_pair(random)
        if random.random() < 0.06:
            at = random.randrange(len(pair) + 1)
            damage = random.choice(
                (b";", b"%", b"%zz", b"&", b"=", b"+", b"%26", b"%3B", b"?", b"#")
            )
            pair = pair[:at] + damage + pair[at:]
        pairs.append(pair)
    return b"?" + random.choice((b"&",) * 12 + (b";", b"&&")).join(pairs)


def _make_pair(random: Random) -> bytes:
    kind = random.random()
    if kind < 0.3:
        name, value = "watch", random.choice(_WATCHES)
    elif kind < 0.55:
        name, value = "fieldSelector", make_field_selector(random)
    elif kind < 0.8:
        name, value = "labelSelector", make_label_selector(random)
    else:
        name = random.choice(_OTHERS)
        value = random.choice(random.choice((_INTEGERS, _BOOLEANS)))
    if random.random() < 0.08:
        return quote(name).encode()
    encoded_name = quote(name).encode()
    if random.random() < 0.03 and name:
        encoded_name = b"%%%02x" % ord(name[0]) + quote(name[1:]).encode()
    return encoded_name + b"=" + _encode_value(random, value)


def _encode_value(random: Random, value: str) -> bytes:
    if value == "%zz":
        return b"%zz"
    safe = random.choice(("", "", "!()=,<>.\\/", "/:@!$'()*,~"))
    encoded = quote(value, safe=safe).encode()
    return encoded.replace(b"%20", b"+") if random.random() < 0.5 else encoded
