"""Who asks, and as whom: requestors, `Impersonate-*` headers, and the policy that answers."""

from random import Random

from proxy.core.userinfo import NODE_NAME_KEY, UserInfo, make_extra
from tests.go_oracle.cases import Decision, Header, Script, ScriptedAnswer

NODES = ("node1", "node2", "a.b-c")
_REQUESTOR_NAMES = (
    *("bob", "alice", "system:admin", "https://issuer/#x", 'quo"te', "b\\s", "é\u2603", "<b>&"),
    *(
        "\u200b",
        "tab\there",
        "\x7f",
        "new\nline",
        "\U0001f600",
        "\u2028",
        "\u00a0",
        "system:node:node1",
    ),
    *("system:serviceaccount:x", "system:serviceaccount:A:b", "\ue000", "\ufffd", "\u0301"),
)
_REQUESTOR_GROUPS = ("system:authenticated", "dev", "system:masters", "", "é", "a,b")
_SERVICE_ACCOUNTS = (
    *("system:serviceaccount:default:agent", "system:serviceaccount:kube-system:daemon"),
    *("system:serviceaccount:a:b.c", "system:serviceaccount:x:agent"),
)


def make_requestor(random: Random) -> UserInfo:
    """Return an authenticated caller; half of them service accounts, most of those on a node."""
    extra: dict[str, tuple[str, ...]] = {}
    if random.random() < 0.5:
        name = random.choice(_SERVICE_ACCOUNTS)
    else:
        name = random.choice(_REQUESTOR_NAMES[: 2 if random.random() < 0.6 else None])
    if random.random() < 0.6:
        count = random.choice((1, 1, 1, 1, 2, 0))
        extra[NODE_NAME_KEY] = tuple(random.choice(NODES) for _ in range(count))
    if random.random() < 0.3:
        extra["authentication.kubernetes.io/pod-name"] = ("p",)
    if random.random() < 0.1:
        extra[random.choice(("Scopes", "é", "", "a\nb"))] = random.choice(((), ("",), ("x", "y")))
    groups = [random.choice(_REQUESTOR_GROUPS) for _ in range(random.choice((0, 1, 1, 2)))]
    uid = random.choice(("", "", "1234", "ü"))
    return UserInfo(name=name, uid=uid, groups=tuple(groups), extra=make_extra(extra))


_WANTED_USERS = (
    *(b"alice", b"alice", b"system:node:node1", b"system:node:node2", b"system:node:a.b-c"),
    *(b"system:serviceaccount:default:sa", b"system:serviceaccount:a:b.c", b"system:anonymous"),
    *(b"", b"system:node:", b"system:node:Node_1", b"system:node:-x", b"system:node:a..b"),
    *(b"system:serviceaccount:foo", b"system:serviceaccount:a:B", b"system:serviceaccount::x"),
    *(b"system:serviceaccount:a:b:c", b"system:serviceaccount:a.b:c", b"system:serviceaccount:a:"),
    *(b"*", b"a b", b'quo"te', b"<b>&", "é\u2603".encode(), b"\xff", b"a\xc3", b"a\tb", b"%41"),
    *(b"system:node:" + b"a" * 253, b"system:node:" + b"a" * 254, "\u00a0x".encode(), b"a,b"),
    *(b"system:serviceaccount:" + b"a" * 64 + b":x", b"system:kube-controller-manager", b"a\x80"),
    *("\u0085".encode(), "\u2028".encode(), "\U0001f600".encode(), b"\xed\xa0\x80", b"\\"),
)
_WANTED_GROUPS = (
    *(b"dev", b"ops", b"a,b", b"system:nodes", b"system:authenticated", b"system:unauthenticated"),
    *(b"system:masters", b"", b"*", b"system:serviceaccounts", "ü".encode(), b"\xfe", b'"', b"<&>"),
)
_EXTRA_KEYS = (
    *(
        b"acme.io%2Fuser",
        b"acme.io%2fscopes",
        b"Acme.io%2FProject",
        b"example.com%2fa%2fb",
        b"scopes",
    ),
    *(b"acme.io%2f%46oo", b"%41cme.io%2fx", b"acme_io%2fx", b"acme.io%2f", b"%2fx", b"", b"%zz"),
    *(
        b"a.b%2f%zz",
        b"a%2fb%20c",
        b"a.b%2f%e1%9b%84",
        b"a/b",
        b"a.b%2f%ff",
        b"a.b%2f%00",
        b"a.b%2f%22",
    ),
    *(b"A" * 254 + b"%2fx", b"a..b%2f%5e", b"authentication.kubernetes.io%2fnode-name", b"%2b+%2B"),
    *(b"acme.io%2fScopes", b"a.b%2fx.y~!$&'*+", b"%", b"%4", b"a.b%2f%c3%9c", b"%20x", b"-%2fx"),
)
_EXTRA_VALUES = (
    b"v",
    b"scope-a",
    b"node1",
    b"",
    b"*",
    b"a b",
    "é".encode(),
    b"\xff",
    b"<v>",
    b"x,y",
)
_STRANGE_HEADERS: tuple[Header, ...] = (
    *((b"Impersonate-Foo", b"x"), (b"Impersonate_User", b"root"), (b"Impersonate", b"x")),
    *((b"Impersonate-Extra", b"x"), (b"Impersonate-Users", b"x"), (b"impersonate_extra_a", b"x")),
    *((b"Impersonate-Extra_a", b"x"), (b"X-Impersonate-User", b"x"), (b"Impersonate-Userx", b"")),
    *((b"Impersonate-Group_", b"x"), (b"Impersonate-", b"x"), (b"Impersonate-UID_", b"")),
)
_AGENTS = (
    b"kubectl/v1.37.1",
    b"curl/8.0",
    b"Mozilla/5.0 (X11)",
    b"Mozilla/4.0",
    b"Wget/1",
    b"CURL",
    b"",
)
_MEDIA_TYPES = (
    *("application/json", "*/*", "application/*", "application/yaml", "text/html", "a/b"),
    *("application/vnd.kubernetes.protobuf", "*", "application", "application/json/x", "", "/"),
    *("application/cbor", "text/*", "*/json", " application/json ", "Application/JSON"),
)
_PARAMETERS = (
    *("pretty=1", "pretty=true", "pretty=0", "q=0.5", "q=0", "q=x", "q=2", "as=Table", "v=v1"),
    *("g=meta.k8s.io", "stream=watch", "stream=x", "charset=utf-8", "sv=1", "pretty = 1", "q=.7"),
    *("as=", "", "pretty", "pretty=1=1", "as=PartialObjectMetadata", "q=1e1", "sv="),
)


def make_headers(random: Random, requestor: UserInfo) -> tuple[Header, ...]:
    """Return the header lines of one request: mostly an impersonation, sometimes a strange one."""
    headers: list[Header] = []
    if random.random() < 0.93:
        headers.append((b"Impersonate-User", _wanted_user(random, requestor)))
    if random.random() < 0.45:
        headers += _more_identity(random)
    if random.random() < 0.03:
        headers.append((random.choice((b"Impersonate-User", b"Impersonate-Uid")), b"second"))
    if random.random() < 0.03:
        headers.append(random.choice(_STRANGE_HEADERS))
    if random.random() < 0.3:
        headers.append((b"User-Agent", random.choice(_AGENTS)))
    if random.random() < 0.3:
        headers.append((b"Accept", _make_accept(random)))
    if random.random() < 0.3:
        random.shuffle(headers)
    return ((b"Host", b"server"), *(_respell(random, header) for header in headers))


def _make_accept(random: Random) -> bytes:
    clauses = []
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        media_type = random.choice(_MEDIA_TYPES[: 4 if random.random() < 0.6 else None])
        parameters = random.choices(_PARAMETERS, k=random.choice((0, 0, 1, 1, 2, 3)))
        clauses.append(random.choice((";", ";", "; ")).join((media_type, *parameters)))
    return random.choice((",", ", ", ",,")).join(clauses).encode()


def _wanted_user(random: Random, requestor: UserInfo) -> bytes:
    if random.random() < 0.2:
        nodes = dict(requestor.extra).get(NODE_NAME_KEY)
        return b"system:node:" + (nodes[0] if nodes else "node1").encode()
    return random.choice(_WANTED_USERS[: 8 if random.random() < 0.7 else None])


def _more_identity(random: Random) -> list[Header]:
    headers: list[Header] = []
    if random.random() < 0.25:
        headers.append((b"Impersonate-Uid", random.choice((b"1234", b"u", b"", b"\xff", b"<u>"))))
    for _ in range(random.choice((0, 0, 1, 2, 3, 4, 5, 6))):
        everyday = 6 if random.random() < 0.85 else None
        headers.append((b"Impersonate-Group", random.choice(_WANTED_GROUPS[:everyday])))
    for _ in range(random.choice((0, 0, 1, 1, 2, 3))):
        headers += _extra_lines(random)
    return headers


def _extra_lines(random: Random) -> list[Header]:
    key = random.choice(_EXTRA_KEYS[: 4 if random.random() < 0.7 else None])
    values = random.choice((1, 1, 1, 1, 2, 3))
    return [
        (
            b"Impersonate-Extra-" + key,
            random.choice(_EXTRA_VALUES[: 3 if random.random() < 0.85 else None]),
        )
        for _ in range(values)
    ]


def _respell(random: Random, header: Header) -> Header:
    """Write a header as careless clients do: other case, blanks around the value."""
    name, value = header
    kind = random.random()
    if kind < 0.1:
        name = name.lower()
    elif kind < 0.2:
        name = name.upper()
    if kind > 0.95:
        value = random.choice((b" %b ", b"\t%b", b"%b\t ")) % value
    return name, value


_DENIALS: tuple[ScriptedAnswer, ...] = (
    ScriptedAnswer("deny"),
    ScriptedAnswer("no-opinion"),
    ScriptedAnswer("deny", reason='not <you> & "me"'),
    ScriptedAnswer("no-opinion", reason="RBAC: é"),
    ScriptedAnswer("no-opinion", error="boom"),
    ScriptedAnswer("deny", reason="why", error="boom\n<2>"),
)
_ALLOWANCES: tuple[ScriptedAnswer, ...] = (
    ScriptedAnswer("allow"),
    ScriptedAnswer("allow", reason="because"),
    ScriptedAnswer("allow", error="partly broken"),
)


ALL_YES = Script("", _ALLOWANCES[:1], _ALLOWANCES[:1], _ALLOWANCES[:1])
ALL_NO = Script("", _DENIALS[:1], _DENIALS[:1], _DENIALS[:1])


def make_script(random: Random) -> Script:
    """Return a policy: for each kind of check all yes, all no, or a mixture."""
    return Script(
        salt=str(random.randrange(1_000_000)),
        action=_make_answers(random, (0.55, 0.2)),
        identity=_make_answers(random, (0.4, 0.2)),
        legacy=_make_answers(random, (0.2, 0.45)),
    )


def _make_answers(random: Random, shares: tuple[float, float]) -> tuple[ScriptedAnswer, ...]:
    all_yes, all_no = shares
    kind = random.random()
    if kind < all_yes:
        return (_one_answer(random, "allow"),)
    if kind < all_yes + all_no:
        return (_one_answer(random, "deny"),)
    mixture: tuple[Decision, ...] = ("allow", "allow", "allow", "deny")
    return tuple(_one_answer(random, random.choice(mixture)) for _ in range(8))


def _one_answer(random: Random, decision: Decision) -> ScriptedAnswer:
    if decision == "allow":
        return _ALLOWANCES[0] if random.random() < 0.8 else random.choice(_ALLOWANCES)
    return _DENIALS[0] if random.random() < 0.4 else random.choice(_DENIALS)
