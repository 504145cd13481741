from proxy.core.cel.errors import (
    CelEvaluationError,
    CostLimitExceeded,
    EvaluationAborted,
    no_such_overload,
)


def test_an_overload_error_names_the_function_and_the_types() -> None:
    assert no_such_overload().message == "no such overload"
    assert no_such_overload("_+_").message == "no such overload: _+_"
    assert no_such_overload("size", "int").message == "no such overload: size(int)"


def test_an_exceeded_limit_is_no_error_that_an_operator_absorbs() -> None:
    assert not issubclass(CostLimitExceeded, CelEvaluationError)
    assert issubclass(CostLimitExceeded, EvaluationAborted)
