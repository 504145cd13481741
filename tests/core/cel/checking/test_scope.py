from proxy.core.cel.checking.scope import Scope, TypeReference, VariableReference
from proxy.core.cel.checking.types import DYN, INT, STRING


def test_a_name_is_looked_for_from_the_innermost_container_outwards() -> None:
    scope = Scope({"a.b.x": INT, "x": STRING}, "a.b")

    assert scope.candidates("x") == ["a.b.x", "a.x", "x"]
    assert scope.resolve("x") is not None
    assert scope.resolve("x").type == INT  # type: ignore[union-attr]
    assert scope.resolve(".x").type == STRING  # type: ignore[union-attr]


def test_a_local_variable_hides_a_global_one_and_its_qualified_names() -> None:
    scope = Scope({"x": STRING, "x.y": INT})
    scope.enter()
    scope.declare("x", DYN)

    assert scope.resolve("x").reference == VariableReference("x", is_local=True)  # type: ignore[union-attr]
    assert scope.resolve("x.y") is None
    scope.leave()
    assert scope.resolve("x.y").reference == VariableReference("x.y", is_local=False)  # type: ignore[union-attr]


def test_a_type_has_a_name_too() -> None:
    assert Scope({}).resolve("int").reference == TypeReference("int")  # type: ignore[union-attr]
    assert Scope({}).resolve("nope") is None
