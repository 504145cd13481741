from proxy.core.cel.values.kinds import NONE, OptionalValue, Quantity, Uint, type_name


def test_every_value_has_a_type_name() -> None:
    assert type_name(bool(1)) == "bool"
    assert type_name(1) == "int"
    assert type_name(Uint(1)) == "uint"
    assert type_name(NONE) == "optional_type"


def test_a_uint_is_no_int() -> None:
    one: object = 1
    assert Uint(1) != one
    assert OptionalValue(None) != NONE


def test_quantities_are_equal_by_value() -> None:
    assert Quantity(1, 3) == Quantity(1000, 0)
    assert hash(Quantity(1, 3)) == hash(Quantity(1000, 0))
    assert Quantity(1, 0) != 1
