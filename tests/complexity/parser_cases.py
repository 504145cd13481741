"""Parsers on their own: those of answers and bodies above all, which requests do not reach."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache

from cryptography import x509
from cryptography.x509.oid import NameOID

from proxy.authentication.ca_bundle import CABundle, PEMBundle, caller_from_certificate
from proxy.core.audit.event import request_text
from proxy.core.authorization.access_check import AccessCheck, subject_access_review
from proxy.core.errors import Forbidden, StatusError
from proxy.core.forwarding import build_response_lines
from proxy.core.gocompat.duration import parse_duration_error
from proxy.core.http.front_proxy import FrontProxyHeaderNames, parse_front_proxy_user
from proxy.core.http.headers import check_header_safe, parse_header_lines
from proxy.core.http.status import status_body
from proxy.core.impersonation.cache_keys import request_key
from proxy.core.impersonation.checks import ImpersonationRules, plan_attempts, request_checks
from proxy.core.impersonation.evaluation import Denied, forbidden_error
from proxy.core.impersonation.policy import validate_extra
from proxy.core.requestinfo.request_info import (
    check_target_length,
    is_newline_delimited,
    parse_request_info,
)
from proxy.core.selfcheck import denial as selfcheck_denial
from proxy.core.userinfo import Caller, UserInfo
from proxy.wire.exchange import Peer
from proxy.wire.http1.body import BodyError, ChunkedReader
from proxy.wire.http1.message import MalformedResponse, find_head_end
from proxy.wire.http1.raw_chunks import RawChunkReader
from proxy.wire.http1.response_parser import CachingResponseParser
from tests.complexity.measuring import BAR_BYTES, Case, of_function
from tests.complexity.shapes import IN_TARGETS, IN_VALUES, Shape, repeated
from tests.support.chains import Issuer

_REMOTE = FrontProxyHeaderNames(
    (b"x-remote-user",), (b"x-remote-uid",), (b"x-remote-group",), (b"x-remote-extra-",)
)
_ANSWER = b"HTTP/1.1 200 OK\r\n%bContent-Length: 0\r\n\r\n"
_LONGEST_PREFIX = 64
# A smaller record costs more to decrypt than to read, whatever is in it.
_PIECE_BYTES = 1024
_CHUNKS = {
    "of one byte": b"1\r\na\r\n",
    "of one and two bytes": b"1\r\na\r\n2\r\naa\r\n",
    "of line ends": b"2\r\n\r\n\r\n",
    "of one byte with zeros now and then": b"1\r\na\r\n" * 9 + b"01\r\na\r\n",
    "of one byte with large ones now and then": b"1\r\na\r\n" * 9 + b"100\r\n%b\r\n" % (b"a" * 256),
    "of 15 bytes": b"f\r\n" + b"a" * 15 + b"\r\n",
    "of 16 bytes": b"10\r\n" + b"a" * 16 + b"\r\n",
    "with zeros": b"01\r\na\r\n",
    "with extensions": b"1;a\r\na\r\n",
    "in capitals": b"A\r\n" + b"a" * 10 + b"\r\n",
}
_CERTIFICATE_BYTES = 12
"""What one attribute of a name or one DNS name takes in a certificate, about."""

Use = Callable[[bytes], object]


def parser_cases() -> Iterator[Case]:
    """Yield every case."""
    yield from _texts()
    yield from _selectors()
    yield from _denials()
    yield from _answers()
    yield from _chunks()
    yield from _identities()
    yield from _certificates()


def _case(name: str, shape: Shape, use: Use) -> Case:
    def prepare(size: int) -> Callable[[], int]:
        data = shape(size)

        def work() -> None:
            with suppress(StatusError, MalformedResponse, BodyError):
                use(data)

        return of_function(work)

    return Case(f"parser: {name}", prepare)


def _texts() -> Iterator[Case]:
    uses: dict[str, Use] = {
        "duration": parse_duration_error,
        "audited target": lambda data: request_text(None, b"GET", b"/" + data, max_bytes=16_384),
        "denial": lambda data: status_body(_denied(_text(data)), pretty=True),
        "extra key": lambda data: validate_extra(((_text(data), ("a",)),)),
        "extra key with host": lambda data: validate_extra(((f"a.io/{_text(data)}", ("a",)),)),
        "identity": lambda data: check_header_safe(UserInfo(_text(data), groups=(_text(data),))),
    }
    for use_name, use in uses.items():
        for shape_name, shape in IN_VALUES.items():
            yield _case(f"{use_name} {shape_name}", shape, use)


def _denied(name: str) -> Forbidden:
    check = AccessCheck(UserInfo(name), "get", resource=name, namespace=name, name=name, path=name)
    return forbidden_error(Denied(check, ""))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _selectors() -> Iterator[Case]:
    """Yield selectors up to the review and the key that are made of them."""
    for parameter in (b"labelSelector", b"fieldSelector"):
        for shape_name, shape in IN_TARGETS.items():
            name = f"review of {parameter.decode()} {shape_name}"
            yield _case(name, _prefixed(b"/api/v1/pods?%b=" % parameter, shape), _review)


def _prefixed(prefix: bytes, shape: Shape) -> Shape:
    return lambda size: prefix + shape(size)


def _review(target: bytes) -> None:
    # Longer ones are refused before they are read, as the pipeline does it.
    check_target_length(b"GET", target, max_bytes=BAR_BYTES + _LONGEST_PREFIX)
    request_info = parse_request_info(b"GET", target)
    caller = Caller(UserInfo("alice"))
    for attempt in plan_attempts(caller, UserInfo("bob"), request_info, rules=ImpersonationRules()):
        request_key(attempt)
        for check in request_checks(attempt):
            hash(check)
            json.dumps(subject_access_review(check))


def _denials() -> Iterator[Case]:
    uses: dict[str, Use] = {
        media_type: lambda data, media_type=media_type: _denial(media_type, data)  # type: ignore[misc]
        for media_type in selfcheck_denial.DENIAL_TYPES
    }
    bodies: dict[str, Shape] = {
        "blanks": repeated(b" "),
        "lists": repeated(b"[", before=b'{"kind":"Status","a":'),
        "objects": repeated(b'{"a":', before=b'{"kind":"Status","a":'),
        "digits": repeated(b"1", before=b'{"kind":"Status","code":', after=b"}"),
        "escapes": repeated(b"\\u0000", before=b'{"kind":"Status","message":"', after=b'"}'),
        "fields": repeated(b"\x08\x00", before=b"k8s\x00"),
        "long numbers": repeated(b"\x80", before=b"k8s\x00"),
        "words": repeated(b"a "),
        "message": repeated(
            b"\\\\",
            before=b'{"kind":"Status","code":403,"reason":"Forbidden","message":"forbidden: User '
            b'\\"me\\" cannot get path \\"',
            after=b'"}',
        ),
        "sentences": repeated(b"forbidden: User "),
    }
    for use_name, use in uses.items():
        for shape_name, shape in bodies.items():
            yield _case(f"denial in {use_name} {shape_name}", shape, use)


def _denial(media_type: str, body: bytes) -> None:
    selfcheck_denial.may_become_denial(media_type, body)
    denial = selfcheck_denial.parse_denial(media_type, body[:65536])  # no longer one is held back
    if denial is not None:
        selfcheck_denial.missing_permission(denial, ["me", "you"])


def _answers() -> Iterator[Case]:
    lines = {
        "shortest": b"a:\r\n",
        "plain": b"a: b\r\n",
        "plain of 16 bytes": b"x-abcdefg: abc\r\n",
        "audit ids": b"Audit-Id: a\r\n",
        "warnings": b"Warning: a\r\n",
        "connection": b"Connection: a\r\n",
    }
    for name, unit in lines.items():
        yield _case(f"answer with lines {name}", repeated(unit), _answer)
    for name in ("X-A", "Connection", "Content-Type", "Upgrade", "Transfer-Encoding", "Audit-Id"):
        for shape_name, shape in IN_VALUES.items():
            before = f"{name}: ".encode()
            yield _case(f"answer with {name} {shape_name}", _line(before, shape), _answer)
    yield _case("answer by pieces", repeated(b"a"), _answer_by_pieces)


def _line(before: bytes, shape: Shape) -> Shape:
    return lambda size: before + shape(size) + b"\r\n"


def _answer(lines: bytes) -> None:
    head = _ANSWER % lines
    answer = CachingResponseParser().parse(head, method=b"GET", audit_id=b"an-audit-id")
    lines = build_response_lines(answer.lines, audit_id=b"an-audit-id")
    is_newline_delimited(parse_header_lines(lines))


def _answer_by_pieces(data: bytes) -> None:
    buffer, searched = bytearray(), 0
    for start in range(0, len(data), 64):
        buffer += data[start : start + 64]
        find_head_end(buffer, searched)
        searched = len(buffer)


def _chunks() -> Iterator[Case]:
    for reader in (ChunkedReader, RawChunkReader):
        for name, unit in _CHUNKS.items():
            yield _case(f"{reader.__name__} {name}", repeated(unit), _feed(reader))
            pieces = _feed(reader, step=_PIECE_BYTES)
            yield _case(f"{reader.__name__} {name} by pieces", repeated(unit), pieces)
        for name, shape in {
            "trailers": repeated(b"a\r\n", before=b"0\r\n"),
            "one trailer": repeated(b"a", before=b"0\r\n"),
            "extension": repeated(b"a", before=b"1;"),
            "size": repeated(b"0"),
            "one chunk": repeated(b"a", before=b"ffffff\r\n"),
        }.items():
            yield _case(f"{reader.__name__} {name}", shape, _feed(reader))
            yield _case(
                f"{reader.__name__} {name} by pieces", shape, _feed(reader, step=_PIECE_BYTES)
            )


def _feed(reader_type: type[ChunkedReader], *, step: int = 16384) -> Use:
    def feed(data: bytes) -> None:
        reader = reader_type()
        for start in range(0, len(data), step):
            reader.feed(data[start : start + step])

    return feed


def _identities() -> Iterator[Case]:
    """Yield lines of front proxies, which no certificate of the other cases stands for."""
    for name in (b"x-remote-user", b"x-remote-group", b"x-remote-extra-a", b"x-other"):
        lines = repeated(b"%b: a\r\n" % name)
        yield _case(f"front proxy's lines {name.decode()}", lines, _remote)


def _remote(data: bytes) -> None:
    lines = [(b"x-remote-user", b"alice")]
    # No head has more lines than this (the limit of lines is a test of its own).
    for line in data.split(b"\r\n")[:-1][:4096]:
        name, _, value = line.partition(b": ")
        lines.append((name, value))
    parse_front_proxy_user(lines, _REMOTE)


@lru_cache(maxsize=1)
def _issuer() -> tuple[Issuer, bytes]:
    issuer = Issuer()
    return issuer, issuer.pem


def _certificates() -> Iterator[Case]:
    """Yield certificates whose fields are long or many.

    How large a chain may be is bounded by the authentication code; at 64 KiB its bound applies.
    """
    yield Case(
        "certificate: groups", _judged(lambda count: _names(NameOID.ORGANIZATION_NAME, count))
    )
    yield Case("certificate: names", _judged(lambda count: _names(NameOID.COMMON_NAME, count)))
    yield Case(
        "certificate: DNS names", _judged(lambda _: _names(NameOID.COMMON_NAME, 1), dns=True)
    )


def _names(oid: x509.ObjectIdentifier, count: int) -> x509.Name:
    return x509.Name([x509.NameAttribute(oid, f"{number:08}") for number in range(count)])


def _judged(
    subject: Callable[[int], x509.Name], *, dns: bool = False
) -> Callable[[int], Callable[[], int]]:
    def prepare(size: int) -> Callable[[], int]:
        issuer, pem = _issuer()
        count = max(1, size // (_CERTIFICATE_BYTES if dns else 2 * _CERTIFICATE_BYTES))
        names = x509.SubjectAlternativeName([x509.DNSName(f"{one:08}.a") for one in range(count)])
        extension = x509.Extension(names.oid, critical=False, value=names)
        shown = issuer.issue(subject=subject(count), extensions=[extension] if dns else [])
        bundle = CABundle(PEMBundle(pem, "measured"), read=caller_from_certificate)
        now = datetime.now(UTC)
        return of_function(lambda: bundle.verify(Peer("127.0.0.1", shown.chain), now))

    return prepare
