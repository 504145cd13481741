import pytest

from proxy.core.cel.errors import CelEvaluationError
from proxy.core.cel.library import arguments


def test_arguments_have_their_type() -> None:
    assert arguments.text_of("a") == "a"
    assert arguments.int_of(1) == 1
    assert arguments.list_argument([1]) == [1]
    assert arguments.argument_at(("a",), 1, "b") == "b"
    for convert in (arguments.text_of, arguments.int_of, arguments.list_argument):
        with pytest.raises(CelEvaluationError, match="no such overload"):
            convert(None)


def test_results_have_a_largest_size() -> None:
    arguments.limited_elements(arguments.MAX_ELEMENTS)
    with pytest.raises(CelEvaluationError, match="exceeds the limit"):
        arguments.limited_elements(arguments.MAX_ELEMENTS + 1)
    with pytest.raises(CelEvaluationError, match="exceeds the limit"):
        arguments.limited_characters(arguments.MAX_CHARACTERS + 1)
