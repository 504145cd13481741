from proxy.core.cel.checking.declarations import FUNCTIONS
from proxy.core.cel.library.registry import OVERLOADS, SINGLETONS

# Evaluated by closures of their own, or of a type that no value has.
SPECIAL = {
    "!_", "_!=_", "_==_", "_&&_", "_||_", "_?_:_", "_[_]", "_[?_]", "_?._", "@not_strictly_false",
    "or", "orValue",
}  # fmt: skip


def test_every_declared_function_is_implemented_or_needs_the_authorizer() -> None:
    missing = {
        overload.identifier
        for name, overloads in FUNCTIONS.items()
        if name not in SINGLETONS.keys() | SPECIAL
        for overload in overloads
        if overload.identifier not in OVERLOADS
        and "authorization" not in str(overload.arguments[0])
    }

    assert missing == set()
