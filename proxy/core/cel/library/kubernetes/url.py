"""URLs, as Go's net/url reads them."""

import re
from collections.abc import Callable, Sequence
from urllib.parse import unquote_to_bytes

from proxy.core.cel.errors import CelEvaluationError, no_such_overload
from proxy.core.cel.library.arguments import Implementation, text_of
from proxy.core.cel.library.kubernetes.network import parse_address
from proxy.core.cel.values.kinds import Url, Value

_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):", re.ASCII)
_PORT = re.compile(r"(?::[0-9]*)?", re.ASCII)
_USER = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*", re.ASCII)
_HOST = re.compile(
    r"(?:[A-Za-z0-9\-_.~!$&'()*+,;=:\[\]<>\"]|[^\x00-\x7f]|%[89a-fA-F][0-9a-fA-F]|%25)*"
)
_VALID_PATH = re.compile(r"(?:[A-Za-z0-9\-_.~$&+,/:;=@!'()*\[\]]|%[0-9a-fA-F]{2})*", re.ASCII)
_PLAIN_PATH = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~$&+,/:;=@"
)
_HTTP = ("http", "https")


def parse_request_uri(text: str) -> Url | None:
    """Return the URL of a text as it stands in a request, None if it is not one."""
    return _parse(text, via_request=True)


def parse_url(text: str) -> Url | None:
    """Return the URL of a text that is valid in a request, its fragment apart."""
    if parse_request_uri(text) is None:
        return None
    head, _, fragment = text.partition("#")
    if _BAD_ESCAPE.search(fragment):
        return None
    parsed = _parse(head, via_request=False)
    if parsed is None or not fragment:
        return parsed
    return Url(
        parsed.scheme,
        parsed.host,
        parsed.escaped_path,
        parsed.raw_query,
        f"{parsed.text}#{fragment}",
    )


def _parse(text: str, *, via_request: bool) -> Url | None:
    if _CONTROL.search(text) or (not text and via_request):
        return None
    if text == "*":
        return Url("", "", "*", "", "*")
    found = _SCHEME.match(text)
    if found is None and text.startswith(":"):
        return None
    scheme = "" if found is None else found[1].lower()
    rest = text if found is None else text[found.end() :]
    rest, question, query = rest.partition("?")
    if not rest.startswith("/"):
        return _relative(scheme, rest, question + query, via_request=via_request)
    host: str | None = ""
    authority, has_authority = "", False
    if rest.startswith("//") and (scheme or (not via_request and not rest.startswith("///"))):
        authority, slash, path = rest[2:].partition("/")
        has_authority = True
        rest = slash + path
        host = _authority(scheme, authority)
    if host is None:
        return None
    return _with_path(scheme, host, rest, question + query, authority if has_authority else None)


def _relative(scheme: str, rest: str, query: str, *, via_request: bool) -> Url | None:
    if scheme:
        # What follows is opaque: there is no host and no path.
        return Url(scheme, "", "", query[1:], f"{scheme}:{rest}{query}")
    if via_request or ":" in rest.split("/", 1)[0]:
        return None
    return _with_path("", "", rest, query, None)


def _with_path(scheme: str, host: str, path: str, query: str, authority: str | None) -> Url | None:
    if _BAD_ESCAPE.search(path):
        return None
    escaped = _escaped_path(path)
    head = f"{scheme}:" if scheme else ""
    middle = "" if authority is None else f"//{authority}"
    return Url(scheme, host, escaped, query[1:], f"{head}{middle}{escaped}{query}")


def _escaped_path(path: str) -> str:
    if _VALID_PATH.fullmatch(path):
        return path
    decoded = unquote_to_bytes(path.encode("utf-8", "surrogatepass"))
    return "".join([chr(byte) if byte in _PLAIN_PATH else f"%{byte:02X}" for byte in decoded])


def _authority(scheme: str, authority: str) -> str | None:
    user, at, host = authority.rpartition("@")
    if at and (not _USER.fullmatch(user) or _BAD_ESCAPE.search(user)):
        return None
    return _host(scheme, host)


def _host(scheme: str, host: str) -> str | None:
    if "[" in host:
        return _bracketed(host)
    _, colon, port = host.partition(":")
    if colon and (":" in port and scheme in _HTTP):
        return None
    tail = host[host.rfind(":") :] if colon else ""
    if not _PORT.fullmatch(tail) or not _HOST.fullmatch(host):
        return None
    return _decoded(host)


def _bracketed(host: str) -> str | None:
    inner, bracket, port = host[1:].rpartition("]")
    if not host.startswith("[") or not bracket or "[" in inner or not _PORT.fullmatch(port):
        return None
    name, percent, zone = inner.partition("%25")
    if ":" not in name or (parse_address(name) is None and not name.lower().startswith("::ffff:")):
        return None
    if percent and not zone:
        return None
    return f"[{name}{'%' + _decoded(zone) if percent else ''}]{port}"


def _decoded(text: str) -> str:
    return unquote_to_bytes(text.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")


def _split_host(host: str) -> tuple[str, str]:
    position = host.rfind(":")
    name, port = host, ""
    if position >= 0 and _PORT.fullmatch(host[position:]):
        name, port = host[:position], host[position + 1 :]
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]
    return name, port


def _query(raw: str) -> dict[object, Value]:
    members: dict[object, Value] = {}
    for pair in raw.split("&"):
        key, _, value = pair.partition("=")
        if not pair or ";" in pair or _BAD_ESCAPE.search(pair):
            continue
        values = members.setdefault(_decoded(key.replace("+", " ")), [])
        assert isinstance(values, list)
        values.append(_decoded(value.replace("+", " ")))
    return members


def _url(values: Sequence[Value]) -> Value:
    parsed = parse_url(text_of(values[0]))
    if parsed is None:
        raise CelEvaluationError("URL parse error during conversion from string")
    return parsed


def _get(part: Callable[[Url], Value]) -> Implementation:
    def get(values: Sequence[Value]) -> Value:
        url = values[0]
        if not isinstance(url, Url):
            raise no_such_overload()
        return part(url)

    return get


OVERLOADS: dict[str, Implementation] = {
    "string_to_url": _url,
    "is_url_string": lambda values: parse_request_uri(text_of(values[0])) is not None,
    "url_get_scheme": _get(lambda url: url.scheme),
    "url_get_host": _get(lambda url: url.host),
    "url_get_hostname": _get(lambda url: _split_host(url.host)[0]),
    "url_get_port": _get(lambda url: _split_host(url.host)[1]),
    "url_get_escaped_path": _get(lambda url: url.escaped_path),
    "url_get_query": _get(lambda url: _query(url.raw_query)),
}
