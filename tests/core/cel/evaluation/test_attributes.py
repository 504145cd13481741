import pytest

from proxy.core.cel.evaluation.attributes import PathAttribute, Qualifier, qualified
from tests.core.cel.evaluating import outcome


@pytest.mark.parametrize(
    ("expression", "wanted", "cost"),
    [
        ("object.a", 1, 2),
        ("object.m.k", "v", 3),
        ("object.l[0]", 1, 3),
        ("object.l[object.a]", 2, 4),
        ("object.l[object.a - 1]", 1, 6),
        ("has(object.zz)", False, 1),
        ("has(object.a.b)", False, 2),
        ("has(object.zz.b)", "no such key: zz", 1),
        ("has((true ? object : object).a)", True, 0),
        ("true ? object.a : 1", 1, 1),
        ("(true ? object : object).a", 1, 1),
        ("object.?a.?b.hasValue()", False, 3),
        ("object.?a.value()", 1, 3),
        ('object[?"zz"].hasValue()', False, 2),
        ("object.?m.k.value()", "v", 4),
        ("object.l[object.n]", "invalid qualifier type: NoneType", 4),
        ("object.m[object.s]", "no such key: x", 4),
        ("false ? 1 : object.a", 1, 1),
        ("object.s ? 1 : 2", "no such overload", 2),
        ("optional.of(object.m).k.value()", "v", 6),
        ("optional.none().k.hasValue()", False, 3),
        ("has(object.?m.k)", True, 2),
        ('{"a": {"b": 1}}.a.b', 1, 3),
        ("object.a.b.c", "no such key: b", 3),
        ("object.l[5]", "index out of bounds: 5", 3),
        ("has(object.?zz.k)", False, 0),
    ],
)
def test_values_errors_and_costs(expression: str, wanted: object, cost: int) -> None:
    found = outcome(expression)

    assert (found.value if found.error is None else found.error) == wanted
    assert found.cost == cost


def test_a_selection_from_a_path_makes_a_longer_path() -> None:
    path = qualified(PathAttribute(lambda _: {"a": 1}), Qualifier("a"))

    assert isinstance(path, PathAttribute)
    assert [qualifier.key for qualifier in path.qualifiers] == ["a"]
