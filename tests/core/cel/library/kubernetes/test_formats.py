import pytest

from proxy.core.cel.checking.declarations import FUNCTIONS
from proxy.core.cel.library.kubernetes.formats import OVERLOADS
from tests.core.cel.evaluating import failure, value


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ('format.dns1123Label().validate("a-b").hasValue()', False),
        ('format.dns1123Label().validate("a.b").value()', ["must not contain dots"]),
        ('format.dns1123Label().validate("-").hasValue()', True),
        ('format.dns1123Subdomain().validate("a.b").hasValue()', False),
        ('format.dns1123Subdomain().validate("A").hasValue()', True),
        ('format.dns1035Label().validate("1").hasValue()', True),
        ('format.dns1035Label().validate("a").hasValue()', False),
        ('format.dns1123LabelPrefix().validate("ab-").hasValue()', False),
        ('format.qualifiedName().validate("a.b/c").hasValue()', False),
        ('format.qualifiedName().validate("a/b/c").hasValue()', True),
        ('format.qualifiedName().validate("/").value().size()', 3),
        ('format.labelValue().validate("").hasValue()', False),
        ('format.labelValue().validate("-").hasValue()', True),
        ('format.uri().validate("/a").hasValue()', False),
        ('format.uuid().validate("x").value()', ["does not match the UUID format"]),
        ('format.byte().validate("YQ==").hasValue()', False),
        ('format.date().validate("2024-02-30").hasValue()', True),
        ('format.datetime().validate("2024-02-29t12:00:00z").hasValue()', False),
        ('format.datetime().validate("2024-02-29").hasValue()', True),
        ('format.named("uuid").hasValue()', True),
        ('format.named("nope").hasValue()', False),
    ],
)
def test_values(expression: str, wanted: object) -> None:
    assert value(expression) == wanted


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ('object.a.validate("a")', "no such overload"),
    ],
)
def test_failures(expression: str, message: str) -> None:
    assert message in failure(expression)


def test_its_overloads_are_declared() -> None:
    declared = {overload.identifier for overloads in FUNCTIONS.values() for overload in overloads}

    assert declared >= set(OVERLOADS)
