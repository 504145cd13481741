import pytest

from proxy.core.cel.environment import POLICY_ENVIRONMENT
from proxy.core.cel.partial.reduction import Failed, Known, Open, Reducer
from proxy.core.cel.partial.rendering import LiteralStyle
from proxy.core.cel.syntax.parser import parse
from proxy.core.cel.syntax.printer import print_expression

TRUE, FALSE = Known(value=True), Known(value=False)
REQUEST = {"t": True, "f": False, "n": 5, "name": "abc", "user": {"n": 1}, "groups": ["g1", "g2"]}


def reduced(text: str, style: LiteralStyle = LiteralStyle.PLAIN) -> object:
    reducer = Reducer(POLICY_ENVIRONMENT, {"request": REQUEST}, frozenset(("object",)), style)
    outcome = reducer.reduce(parse(text), as_bool=True)
    return print_expression(outcome.tree) if isinstance(outcome, Open) else outcome


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("request.n == 5", TRUE),
        ("request.missing", Failed()),
        ("object.x && request.f", FALSE),
        ("object.x || request.t", TRUE),
        ("request.missing && false", FALSE),
        ("request.t && request.t", TRUE),
        ("request.missing && request.t", Failed()),
        ("request.n && object.x", "dyn(1 / 0) && object.x"),
        ("request.t ? object.a : object.b", "object.a"),
        ("request.n ? object.a : object.b", Failed()),
        ("object.a ? request.missing : request.t", "object.a ? dyn(1 / 0) : true"),
        ("object.a == request.missing", Failed()),
        ("request.missing.all(x, object.a)", Failed()),
        ("request.groups.all(g, g == object.g)", '"g1" == object.g && "g2" == object.g'),
        ("request.groups.map(g, g + object.s) == []", '["g1", "g2"].map(g, g + object.s) == []'),
        ("has((request.t ? request.user : object).n)", TRUE),
        ("has(request.missing.a) || has(object.a.b)", "dyn(1 / 0) || has(object.a.b)"),
        ("object.a[request.name]", 'object.a["abc"]'),
        ("object.?a.orValue(request.missing)", "object.?a.orValue(dyn(1 / 0))"),
        ("request.missing[object.a]", Failed()),
        ("request.missing in []", FALSE),
        ("!object.a", "!object.a"),
        ("(request.t && object.x) == object.y", "(true && object.x) == object.y"),
        ("quantity(object.q) == quantity(request.name)", Failed()),
        ("object.q == ip('::1')", 'object.q == ip("::1")'),
        ("cidr(object.c).containsIP(ip('::1' + ''))",
         'cidr(object.c).containsIP(ip("::1" + ""))'),
        ("has((request.missing ? object : object).a)", Failed()),
    ],
)  # fmt: skip
def test_what_is_left(text: str, wanted: object) -> None:
    assert reduced(text) == wanted


def test_a_picked_branch_keeps_the_type_of_the_choice() -> None:
    picked = reduced("(request.t ? object.a : object.b) == 1", LiteralStyle.DYN)

    assert picked == "dyn(object.a) == 1"
