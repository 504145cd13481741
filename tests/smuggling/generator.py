"""Seeded corruptions of sound requests: the same seed makes the same cases on every machine."""

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from random import Random

from tests.smuggling.cases import Case

SMUGGLED = b"GET /api/v1/smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
_CHUNKS = b"5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n"
_SOUND = (
    b"GET /api/v1/pods HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n",
    b"POST /api/v1/pods HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
    b"PUT /api/v1/pods/x HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%b"
    % (len(SMUGGLED), SMUGGLED),
    b"POST /api/v1/pods HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + _CHUNKS,
    b"PATCH /api/v1/pods/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
    b"Trailer: Impersonate-User\r\n\r\n5\r\nhello\r\n0\r\nImpersonate-User: root\r\n\r\n",
    b"PUT /api/v1/pods/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"%x\r\n%b\r\n0\r\n\r\n" % (len(SMUGGLED), SMUGGLED),
    b"DELETE /api/v1/pods/x HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, X-A\r\nX-A: b\r\n\r\n",
    b"HEAD /version HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST /api/v1/pods HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
    b"hello",
    b"POST /api/v1/namespaces/a/pods/b/exec HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n"
    b"Upgrade: SPDY/3.1\r\nContent-Length: 0\r\n\r\n",
)
# What two readers of HTTP might see with different eyes.
_TOKENS = (
    *(b"\r\n", b"\n", b"\r", b"\r\r\n", b"\r\n\r\n", b"\n\n", b" ", b"\t", b"\x0b", b"\x0c"),
    *(b"\x00", b"\x01", b"\x7f", b"\x85", b"\xa0", b"\xff", b"\xc2\xa0", b":", b";", b","),
    *(
        b"0",
        b"00",
        b"0x",
        b"+",
        b"-",
        b"_",
        b"1",
        b"5",
        b"a",
        b"ffffffffffffffff",
        b'"',
        b"#",
        b"%",
    ),
    *(b"chunked", b"identity", b"gzip, ", b"close", b"upgrade", b"HTTP/1.0", b"HTTP/2.0", b"/../"),
    *(b"Content-Length: 0\r\n", b"Content-Length: 5\r\n", b"content-length:42\r\n"),
    *(b"Content-Length: 5, 5\r\n", b"Content-Length: +5\r\n", b"Content_Length: 0\r\n"),
    *(b"Transfer-Encoding: chunked\r\n", b"transfer-encoding: \tchunked \r\n"),
    *(b"Transfer-Encoding: identity\r\n", b"Transfer-Encoding: chunked, identity\r\n"),
    *(b"Transfer_Encoding: chunked\r\n", b"Transfer-Encoding : chunked\r\n"),
    *(b"X: y\r\n Transfer-Encoding: chunked\r\n", b"X:\r\n", b" X: y\r\n", b"X\r\n"),
    *(b"Connection: close\r\n", b"Connection: Content-Length\r\n", b"Connection: Host\r\n"),
    *(b"Connection: Transfer-Encoding, Impersonate-User, Authorization\r\n", b"Host: b\r\n"),
    *(b"Connection: Upgrade\r\nUpgrade: websocket\r\n", b"Expect: 100-continue\r\n"),
    *(b"Impersonate-User: root\r\n", b"Impersonate_User: root\r\n", b"Impersonate-User : root\r\n"),
    *(
        b"Trailer: Content-Length\r\n",
        b"TE: trailers\r\n",
        b"Keep-Alive: 1\r\n",
        b"X-Remote-User: r\r\n",
    ),
    *(b"0\r\n\r\n", b"0\r\n", b"5\r\nhello\r\n", b"1;\r\n", b"0;a\r\n\r\n", SMUGGLED),
)
_LINE = re.compile(rb"[^\n]*\n")


def make_cases(seed: int, cases: int) -> Iterator[Case]:
    """Yield sound requests, one or several, each corrupted in a few places."""
    random = Random(seed)  # not a secret: a case's name says how to make it again
    for number in range(cases):
        wire = b"".join(random.choices(_SOUND, k=random.choice((1, 1, 1, 2, 3))))
        wire = corrupt(random, wire)
        if random.random() < 0.5:
            wire += SMUGGLED
        yield Case(f"seed {seed}, case {number}", wire)


def corrupt(random: Random, wire: bytes) -> bytes:
    """Return the bytes with a few faults, or now and then with none."""
    for _ in range(random.choice((0, 1, 1, 1, 2, 2, 3, 5))):
        wire = random.choice(_CORRUPTIONS)(random, wire)
    return wire


def split(random: Random, wire: bytes) -> list[bytes]:
    """Return the bytes in pieces, torn at any places."""
    cuts = sorted(random.randrange(len(wire) + 1) for _ in range(random.choice((0, 0, 1, 2, 5))))
    return [wire[start:end] for start, end in pairwise([0, *cuts, len(wire)]) if start < end]


def _place(random: Random, wire: bytes) -> int:
    """Return any place in the bytes; often next to what delimits something."""
    places = [match.start() for match in re.finditer(rb"[\r\n:; ]", wire)]
    if places and random.random() < 0.6:
        return random.choice(places) + random.choice((0, 1))
    return random.randrange(len(wire) + 1)


def _insert(random: Random, wire: bytes) -> bytes:
    place = _place(random, wire)
    return wire[:place] + random.choice(_TOKENS) + wire[place:]


def _insert_line(random: Random, wire: bytes) -> bytes:
    places = [match.end() for match in re.finditer(rb"\r\n", wire)] or [0]
    place = random.choice(places)
    return wire[:place] + random.choice(_TOKENS) + wire[place:]


def _remove(random: Random, wire: bytes) -> bytes:
    place = _place(random, wire)
    return wire[:place] + wire[place + random.choice((1, 1, 1, 2, 8)) :]


def _replace(random: Random, wire: bytes) -> bytes:
    place = _place(random, wire)
    return wire[:place] + bytes((random.randrange(256),)) + wire[place + 1 :]


def _repeat_line(random: Random, wire: bytes) -> bytes:
    lines = _LINE.findall(wire) or [b""]
    line = random.choice(lines)
    return wire.replace(line, line * 2, 1) if line else wire


def _swap_lines(random: Random, wire: bytes) -> bytes:
    lines = [*_LINE.findall(wire), wire.rpartition(b"\n")[2]]
    first, second = random.randrange(len(lines)), random.randrange(len(lines))
    lines[first], lines[second] = lines[second], lines[first]
    return b"".join(lines)


def _change_case(random: Random, wire: bytes) -> bytes:
    start = _place(random, wire)
    end = start + random.randrange(20)
    return wire[:start] + wire[start:end].swapcase() + wire[end:]


def _change_number(random: Random, wire: bytes) -> bytes:
    numbers = list(re.finditer(rb"[0-9]+", wire))
    if not numbers:
        return wire
    match = random.choice(numbers)
    value = int(match[0])
    other = random.choice(
        (b"%d" % (value + 1), b"%d" % max(0, value - 1), b"0%d" % value, b"0x%x" % value, b"")
    )
    return wire[: match.start()] + other + wire[match.end() :]


def _end_lines_otherwise(random: Random, wire: bytes) -> bytes:
    other = random.choice((b"\n", b"\r", b"\r\r\n", b"\n\r", b" \r\n", b"\r\n "))
    return wire.replace(b"\r\n", other, random.choice((1, 2, 3, 100)))


_CORRUPTIONS: tuple[Callable[[Random, bytes], bytes], ...] = (
    *(_insert, _insert, _insert_line, _insert_line, _insert_line, _remove, _replace),
    *(_repeat_line, _swap_lines, _change_case, _change_number, _end_lines_otherwise),
)
