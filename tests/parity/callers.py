"""Who asks: users with certificates and tokens, service accounts on nodes and elsewhere."""

from random import Random

from tests.parity.arena import NODES
from tests.parity.cases import Caller, CallerKind, Rights
from tests.parity.renaming import FRESH, TOKEN_USER

_NAMES = (
    *(f"carol-{FRESH}", f"dave-{FRESH}", f"erin-{FRESH}", f"carol-{FRESH}"),
    *(f'quo"te-{FRESH}', f"back\\slash-{FRESH}", f"<b>&-{FRESH}", f"é\u2603-{FRESH}"),
    *(f"system:node:{FRESH}", f"system:serviceaccount:{FRESH}", f"system:node:UP-{FRESH}"),
    *(f"https://issuer/#{FRESH}", f"{FRESH} with blanks", f"system:serviceaccount:a:{FRESH}"),
)
_GROUPS = ("dev", "ops", "system:nodes", 'quo"te', "é")


def make_callers(random: Random, rights: list[Rights]) -> list[Caller]:
    """Return the callers of one set, each with some of these rights."""
    callers = [
        make_user(random, random.choice(rights), number="") for _ in range(random.choice((2, 3)))
    ]
    callers.append(
        Caller(
            f"agent-{FRESH}",
            CallerKind.POD,
            node=random.choice(NODES),
            rights=random.choice(rights),
        )
    )
    if random.random() < 0.5:
        callers.append(
            Caller(f"job-{FRESH}", CallerKind.SERVICE_ACCOUNT, rights=random.choice(rights))
        )
    if random.random() < 0.5:
        callers.append(Caller(TOKEN_USER, CallerKind.STATIC_TOKEN, rights=random.choice(rights)))
    # Two users of one name are one user to a server's memory, which is by name.
    return list({caller.username: caller for caller in callers}.values())


def make_user(random: Random, rights: Rights, *, number: str) -> Caller:
    """Return a certificate's user; the number sets apart users of one set."""
    everyday = random.random() < 0.7
    name = random.choice(_NAMES[:4] if everyday else _NAMES)
    groups = tuple(random.choice(_GROUPS) for _ in range(random.choice((0, 1, 1, 2))))
    uid = random.choice((None, None, "uid-of-caller"))
    return Caller(name + number, groups=groups, uid=uid, rights=rights)
