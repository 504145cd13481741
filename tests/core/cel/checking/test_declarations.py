from proxy.core.cel.checking.declarations import FUNCTIONS, TYPE_NAMES
from proxy.core.cel.checking.types import INT, TypeKind


def test_overloads_are_read_from_the_tables() -> None:
    slice_overload = FUNCTIONS["slice"][0]

    assert slice_overload.identifier == "list_slice"
    assert slice_overload.is_member
    assert slice_overload.arguments[1:] == (INT, INT)
    assert [type_parameter.name for type_parameter in slice_overload.parameters] == ["T"]
    assert FUNCTIONS["sort"][4].identifier == "list_google.protobuf.Duration_sort"


def test_no_function_of_other_libraries_is_declared() -> None:
    assert not {"math.greatest", "base64.encode", "cel.bind", "isMask"} & FUNCTIONS.keys()
    assert sum(map(len, FUNCTIONS.values())) == 340


def test_types_have_names() -> None:
    assert TYPE_NAMES["list"].kind is TypeKind.LIST
    assert "duration" not in TYPE_NAMES
