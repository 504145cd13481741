import pytest

from proxy.core.cel.evaluation.costs import cost_rule, size_of
from tests.core.cel.evaluating import outcome


@pytest.mark.parametrize(
    ("expression", "wanted", "cost"),
    [
        ('"aaaaaaaaaaaaaaaaaaaaa".contains("a")', True, 3),
        ('"aaaaaaaaaaaaaaaaaaaaa".startsWith("aaaaaaaaaaaaaaa")', True, 2),
        ("object.l.distinct()", [1, 2, 3], 31),
        ("[3, 1].sort()", [1, 3], 19),
        ('["b", "a"].sort()', ["a", "b"], 19),
        ("object.l.zz.distinct()", "internal error: interface conversion: value is not a list", 3),
        ('[[1]].flatten(object.s == "x" ? 1 : 1)', [1], 15),
        ("[[1]].flatten(1 / 0)", "internal error: interface conversion: depth is not an int", 1),
        ("[].distinct()", [], 11),
        ('["a", "bb"].join()', "abb", 1),
        ('quantity("1") == quantity("1")', True, 3),
        ('quantity("1") != quantity("1")', False, 3),
        ('optional.of("a") == optional.of("a")', True, 3),
        ('ip("10.0.0.1") in [ip("10.0.0.1")]', True, 13),
        ('format.uuid().validate("a").hasValue()', True, 20),
        ('["a"].isSorted()', True, 0),
        ('cidr("10.0.0.0/8").containsIP(ip("10.0.0.1"))', True, 3),
        ('cidr("10.0.0.0/8").containsCIDR("10.0.0.0/9")', True, 5),
        ("object.l.includes(2)", True, 5),
        ("lists.range(3)", [0, 1, 2], 14),
        ("sets.equivalent([1], [1])", True, 3),
        ('b"a" + b"b"', b"ab", 1),
        ('object.m.includes({"k": "v"})', True, 2),
    ],
)
def test_values_errors_and_costs(expression: str, wanted: object, cost: int) -> None:
    found = outcome(expression)

    assert (found.value if found.error is None else found.error) == wanted
    assert found.cost == cost


def test_a_call_without_a_rule_costs_one_unit() -> None:
    assert cost_rule("size", ("size_list",)) is None
    assert size_of(None) == 1
    assert size_of(b"abc") == 3
