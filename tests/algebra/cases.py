"""Random trees of decisions in the form that both sides read."""

from collections.abc import Iterator
from random import Random
from typing import Literal, TypedDict

Kind = Literal["Allow", "Deny", "NoOpinion", "ConditionsMap", "Union"]


class ConditionNode(TypedDict):
    """A condition and its results: true, false, unevaluatable, nil, or a text after `error:`."""

    id: str
    type: str
    body: str
    description: str
    own: str
    callback: str


class Node(TypedDict):
    """A decision, and as a member of a union also the authorizer that gave it."""

    kind: Kind
    reason: str
    errors: list[str]
    deny: list[ConditionNode]
    noOpinion: list[ConditionNode]
    allow: list[ConditionNode]
    members: list["Node"]
    name: str
    evaluator: str
    fixed: "Node | None"
    hasCallback: bool


_REASONS = ("", "", "because", "not\nnow", 'quo"te', "é{x}", "a: b")
_ERRORS = ("", "boom", "boom", "broken", "[a, b]", "x: y")
_DESCRIPTIONS = ("", "", "", "dev only", 'say "no"', "tab\there", "é" * 512, "é" * 513)
_TYPES = ("", "", "k8s.io/authorization-cel", "acme.io/opaque", "opaque", "a/b/c", "-x", "/t", "x/")
_BODIES = ("", "true", "object.a == 1", "x" * 10240, "x" * 10241, "é" * 5121)
_ODD_IDS = (
    *("", "a", "a/b/c", "/a", "a/", "A.io/x", "acme.io/" + "n" * 63, "acme.io/" + "n" * 64),
    *("d" * 253 + "/a", "d" * 254 + "/a", "a..b/c", "acme.io/-x", "é/ü", 'a"b', "k8s.io/foo"),
    *("acme.io/ä", "authorization.kubernetes.io/foo", "x\n", "acme.io/x\n", "a.b-c/A_b.c"),
)
_NAMES = ("rbac", "webhook", "node", "a.b-c", "policy")
_ODD_NAMES = ("", "Webhook", "a_b", "kubernetes.io/system", "-a", "é", "n" * 254, "rbac\n")
_RESULTS = ("true", "false", "error:boom", "unevaluatable")
_ODD_RESULTS = ("nil", "error:", "error:[a, b]", 'error:say "x"')
_MANY = 129
_FEW_LEVELS = 3


def make_cases(seed: int, count: int) -> Iterator[Node]:
    """Yield that many trees; the same for the same seed."""
    random = Random(seed)
    for _ in range(count):
        yield _make_root(random)


def leaf(kind: Kind, reason: str = "", errors: tuple[str, ...] = ()) -> Node:
    """Return the node of an unconditional decision, or of an empty map or union."""
    return {
        "kind": kind,
        "reason": reason,
        "errors": list(errors),
        "deny": [],
        "noOpinion": [],
        "allow": [],
        "members": [],
        "name": "",
        "evaluator": "own",
        "fixed": None,
        "hasCallback": False,
    }


def _make_root(random: Random) -> Node:
    root = _make_node(random, depth=0)
    root["hasCallback"] = random.random() < 0.6
    return root


def _make_node(random: Random, *, depth: int) -> Node:
    union_share = (0.75, 0.3, 0.15, 0.0)[min(depth, _FEW_LEVELS)]
    roll = random.random()
    if roll < union_share:
        return _make_union(random, depth=depth)
    if random.random() < (0.65 if depth else 0.95):
        return _make_map(random)
    kinds: tuple[Kind, ...] = ("NoOpinion", "NoOpinion", "Allow", "Deny")
    return _make_leaf(random, random.choice(kinds))


def _make_leaf(random: Random, kind: Kind) -> Node:
    errors = random.choices(_ERRORS, k=random.choice((0, 0, 0, 1, 2, 3)))
    return leaf(kind, random.choice(_REASONS), tuple(errors))


def _make_union(random: Random, *, depth: int) -> Node:
    union = leaf("Union")
    names = random.sample(_NAMES, k=random.choice((0, 1, 1, 2, 2, 3, 3, 4, 5)))
    if names and random.random() < 0.08:
        names[random.randrange(len(names))] = random.choice((*_ODD_NAMES, *_NAMES))
    for name in names:
        member = _make_node(random, depth=depth + 1)
        member["name"] = name
        if random.random() < 0.12:
            member["evaluator"] = random.choice(("unsupported", "missing", "fixed", "fixed"))
            kinds: tuple[Kind, ...] = ("Allow", "Deny", "NoOpinion")
            member["fixed"] = _make_leaf(random, random.choice(kinds))
        union["members"].append(member)
    return union


def _make_map(random: Random) -> Node:
    made = leaf("ConditionsMap")
    if random.random() < 0.01:
        count = random.choice((_MANY - 1, _MANY))
        made[random.choice(("deny", "noOpinion", "allow"))] = [
            _make_condition(random, f"acme.io/c{number}", is_odd=False) for number in range(count)
        ]
        return made
    ids = [f"acme.io/{letter}" for letter in "abcdefgh"]
    random.shuffle(ids)
    is_odd = random.random() < 0.12
    # Many results that are false let evaluation reach the lower effects.
    for effect, sizes in (
        ("deny", (0, 0, 1, 2)),
        ("noOpinion", (0, 0, 1, 2)),
        ("allow", (0, 1, 2, 3)),
    ):
        listed = [
            _make_condition(random, ids.pop(), is_odd=is_odd) for _ in range(random.choice(sizes))
        ]
        made[effect] = listed  # type: ignore[literal-required]  # one of three names
    if is_odd and random.random() < 0.3:
        _repeat_an_id(random, made)
    return made


def _repeat_an_id(random: Random, made: Node) -> None:
    everything = made["deny"] + made["noOpinion"] + made["allow"]
    if everything:
        random.choice(everything)["id"] = random.choice(everything)["id"]


def _make_condition(random: Random, id_: str, *, is_odd: bool) -> ConditionNode:
    odd = is_odd and random.random() < 0.5
    return {
        "id": random.choice(_ODD_IDS) if odd and random.random() < 0.5 else id_,
        "type": random.choice(_TYPES if odd else _TYPES[:4]),
        "body": random.choice(_BODIES if odd and random.random() < 0.4 else _BODIES[:3]),
        "description": random.choice(_DESCRIPTIONS if odd else _DESCRIPTIONS[:6]),
        "own": _make_result(random, open_share=0.5),
        "callback": _make_result(random, open_share=0.25),
    }


def _make_result(random: Random, *, open_share: float) -> str:
    if random.random() < open_share:
        return "unevaluatable"
    if random.random() < 0.05:
        return random.choice(_ODD_RESULTS)
    return random.choice((*_RESULTS[:3], "false"))
