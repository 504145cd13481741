"""As whom: `Impersonate-*` headers, from everyday to hostile."""

from random import Random

from tests.parity.cases import NAMESPACE, Header
from tests.parity.renaming import FRESH

ALICE = f"alice-{FRESH}"
ROBOT = f"robot-{FRESH}"
ACTING_GROUP = f"acting-{FRESH}"
ROBOT_USER = f"system:serviceaccount:{NAMESPACE}:{ROBOT}"
NODE_USERS = ("system:node:node-1", "system:node:node-2", f"system:node:ghost-{FRESH}")
SERVICE_ACCOUNT_USERS = (ROBOT_USER, "system:serviceaccount:other:default")
PLAIN_USERS = (ALICE, f"bob-{FRESH}", "system:anonymous", "system:kube-controller-manager")

ODD_USERS = (
    *("system:node:", "system:node:Node_1", "system:node:-x", "system:node:a..b"),
    *("system:serviceaccount:foo", "system:serviceaccount:a:B", "system:serviceaccount::x"),
    *("system:serviceaccount:a:b:c", "system:serviceaccount:a.b:c", "system:serviceaccount:a:"),
    *(
        "*",
        "a b",
        'quo"te',
        "<b>&",
        "é\u2603",
        "a,b",
        "%41",
        "\\",
        "\u2028",
        "\U0001f600",
        "\u00a0",
    ),
    *("system:node:" + "a" * 253, "system:node:" + "a" * 254, "system:admin"),
    f"system:serviceaccount:{'a' * 64}:x",
)
GROUPS = ("dev", "ops", ACTING_GROUP, "system:nodes", "system:authenticated")
ODD_GROUPS = (
    *("system:unauthenticated", "system:masters", "", "*", "a,b", 'quo"te', "<&>", "ü"),
    "system:serviceaccounts",
)
UIDS = ("uid-1", "uid-2")
ODD_UIDS = ("", "*", "<u>", "ü")
EXTRA_KEYS = ("acme.io%2Fuser", "acme.io%2fscopes", "Example.com%2Fa%2fb", "acme.io%2Fuser")
ODD_EXTRA_KEYS = (
    *("scopes", "acme.io%2f%46oo", "%41cme.io%2fx", "acme_io%2fx", "acme.io%2f", "%2fx", ""),
    *("%zz", "a.b%2f%zz", "a%2fb%20c", "a.b%2f%e1%9b%84", "a.b%2f%22", "a.b%2fx.y~!$&'*+", "%"),
    *("a" * 254 + "%2fx", "a_b%2f%5e", "authentication.kubernetes.io%2fnode-name", "%2b+%2B"),
    *("acme.io%2fScopes", "-%2fx", "a..b%2fx", "%20x"),
)
EXTRA_VALUES = ("v", "scope-a", "node-1")
ODD_EXTRA_VALUES = ("", "*", "a b", "é", "<v>", "x,y")

# Each of these is refused by us in the words of a deviation.
_REFUSED_LINES: tuple[Header, ...] = (
    *((b"Impersonate-User", b"second"), (b"Impersonate-Uid", b"second")),
    *((b"Impersonate-Foo", b"x"), (b"Impersonate_User", b"root"), (b"Impersonate", b"x")),
    *((b"Impersonate-Extra", b"x"), (b"impersonate_extra_a", b"x"), (b"Impersonate-Userx", b"")),
    *((b"Impersonate-Group", b"\xff"), (b"Impersonate-Group", b"a\tb")),
    *((b"Impersonate-Extra-a.b%2f%ff", b"x"), (b"Impersonate-Extra-a.b%2f%00", b"x")),
    *((b"Impersonate-Extra-a.b%2fx", b"\x80"), (b"Impersonate-Uid", b"\xc3")),
    *((b"Authorization", b"Bearer second"), (b"Audit-ID", b"second")),
)


def make_headers(random: Random) -> list[Header]:
    """Return the lines that say as whom; mostly somebody, sometimes nobody or half of somebody."""
    headers: list[Header] = []
    if random.random() < 0.93:
        headers.append((b"Impersonate-User", _user(random).encode()))
    if random.random() < 0.4:
        headers += _more_identity(random)
    if random.random() < 0.03:
        headers.append(random.choice(_REFUSED_LINES))
    if random.random() < 0.25:
        random.shuffle(headers)
    return [_respell(random, header) for header in headers]


def _user(random: Random) -> str:
    kind = random.random()
    if kind < 0.25:
        return random.choice(NODE_USERS)
    if kind < 0.4:
        return random.choice(SERVICE_ACCOUNT_USERS)
    if kind < 0.85:
        return random.choice(PLAIN_USERS[: 2 if kind < 0.75 else None])
    return random.choice(ODD_USERS) if kind < 0.99 else ""


def _more_identity(random: Random) -> list[Header]:
    headers: list[Header] = []
    if random.random() < 0.3:
        headers.append((b"Impersonate-Uid", _pick(random, UIDS, ODD_UIDS).encode()))
    headers += [
        (b"Impersonate-Group", _pick(random, GROUPS, ODD_GROUPS).encode())
        for _ in range(random.choice((0, 0, 1, 1, 2, 3, 4, 5, 6)))
    ]
    for _ in range(random.choice((0, 0, 0, 1, 1, 1, 2))):
        name = b"Impersonate-Extra-" + _pick(random, EXTRA_KEYS, ODD_EXTRA_KEYS).encode()
        headers += [
            (name, _pick(random, EXTRA_VALUES, ODD_EXTRA_VALUES).encode())
            for _ in range(random.choice((1, 1, 1, 2, 4)))
        ]
    return headers


def _pick(random: Random, everyday: tuple[str, ...], odd: tuple[str, ...]) -> str:
    return random.choice(everyday if random.random() < 0.88 else odd)


def _respell(random: Random, header: Header) -> Header:
    """Write a line as careless clients do: other case, blanks around the value."""
    name, value = header
    kind = random.random()
    if kind < 0.1:
        name = name.lower()
    elif kind < 0.2:
        name = name.upper()
    if kind > 0.95:
        value = random.choice((b" %b ", b"\t%b", b"%b\t ")) % value
    return name, value
