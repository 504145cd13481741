"""The CEL engine against the Kubernetes environment: specification, declarations, random ones."""

import json
from collections import Counter
from collections.abc import Iterator

import pytest

from proxy.core.cel.checking.declarations import FUNCTIONS
from proxy.core.cel.checking.types import parse_type
from proxy.core.cel.environment import CelEnvironment
from proxy.core.cel.errors import CelCompileError
from tests.cel_differential.comparison import error_class, run
from tests.cel_differential.partial_laws import run_laws
from tests.cel_differential.tagged import decode, encode, normalize
from tests.support.cel_oracle import CelOracle, SpecificationTest, running_cel_oracle

# What an engine without protobuf messages cannot run.
_MESSAGE_FILES = ("enums", "proto2", "proto2_ext", "proto3", "dynamic", "wrappers", "block_ext")
_MESSAGE_WORDS = (
    "TestAllTypes", "NestedMessage", "GlobalEnum", '"other"', "wrapper(", "NullValue", "Value{",
    "google.protobuf.Any", "google.protobuf.Value", "google.protobuf.Struct", "ListValue",
    "Int64Value", "Int32Value", "UInt32Value", "UInt64Value", "BoolValue", "StringValue",
    "BytesValue", "FloatValue", "DoubleValue", "Timestamp{", "Duration{",
)  # fmt: skip
# Declared for old expressions or not at all for the checker.
_NOT_DECLARED = {"in", "_in_", "__not_strictly_false__"}


@pytest.fixture(scope="module")
def oracle() -> Iterator[CelOracle]:
    with running_cel_oracle() as running:
        yield running


def test_the_declared_functions_are_those_of_the_environment(oracle: CelOracle) -> None:
    native: dict[str, list[tuple[str, bool, list[str], str]]] = {}
    for each in oracle.declarations():
        row = (each["id"], each["member"], each["args"], each["result"])
        native.setdefault(each["name"], []).append(row)

    ours = {
        name: [
            (each.identifier, each.is_member, [*map(shown, each.arguments)], shown(each.result))
            for each in overloads
        ]
        for name, overloads in FUNCTIONS.items()
    }
    assert ours == {name: rows for name, rows in native.items() if name not in _NOT_DECLARED}


def shown(given: object) -> str:
    """Return a type as the oracle writes it: parameters in angle brackets."""
    text = str(given)
    for name in ("A", "B", "K", "T", "V"):
        text = text.replace(f"({name}", f"(<{name}>").replace(f", {name})", f", <{name}>)")
    return f"<{text}>" if len(text) == 1 else text


def is_marked(test: SpecificationTest) -> bool:
    if test["file"] in _MESSAGE_FILES or test.get("unreadable"):
        return True
    if test.get("functions") or test.get("noMacros") or test.get("checkOnly"):
        return True
    text = json.dumps({key: value for key, value in test.items() if key != "kubernetes"})
    return any(word in text for word in _MESSAGE_WORDS)


@pytest.mark.timeout(120)
def test_the_specification_has_the_outcomes_of_kubernetes(oracle: CelOracle) -> None:
    counts: Counter[str] = Counter()
    unexplained: list[str] = []
    for test in oracle.specification():
        if is_marked(test):
            counts["marked"] += 1
            continue
        native, ours = native_outcome(test), our_outcome(test)
        counts["unmarked"] += 1
        counts[expectation(test, native)] += 1
        if native != ours:
            unexplained.append(f"{test['expression']}: native {native}, ours {ours}")

    print(f"specification: {dict(counts)}")  # noqa: T201 - the counts of the pinned module
    assert unexplained == []
    assert counts["unmarked"] > 1_700
    assert counts["as specified"] > 1_300


def expectation(test: SpecificationTest, native: str) -> str:
    """Return how the Kubernetes environment differs from the specification."""
    if test.get("wantError"):
        if native == "refused":
            return "refused where an error is specified"
        return "as specified" if native.startswith("error") else "otherwise"
    return "as specified" if native == json.dumps(normalize(test["wantValue"])) else "otherwise"


def native_outcome(test: SpecificationTest) -> str:
    answer = test["kubernetes"]
    if answer.get("compileError") or answer.get("programError"):
        return "refused"
    outcome = answer["outcomes"][0]
    error = outcome.get("error")
    return f"error {error_class(error)}" if error else json.dumps(normalize(outcome["value"]))


def our_outcome(test: SpecificationTest) -> str:
    variables = {each["name"]: parse_type(each["type"]) for each in test.get("variables", [])}
    environment = CelEnvironment(variables, test.get("container", ""))
    try:
        program = environment.compile(test["expression"])
    except CelCompileError:
        return "refused"
    bindings = {name: decode(value) for name, value in test.get("bindings", {}).items()}
    outcome = program.evaluate(bindings)
    if outcome.error is not None:
        return f"error {error_class(outcome.error)}"
    return json.dumps(encode(outcome.value))


@pytest.mark.timeout(120)
def test_random_expressions_have_the_same_outcome_and_cost(oracle: CelOracle) -> None:
    report = run(oracle, 11, 4_000)

    assert report.differences == []
    assert report.values > 2_000
    assert report.exact_costs > report.close_costs * 50


@pytest.mark.timeout(120)
def test_residuals_obey_the_laws_of_partial_evaluation(oracle: CelOracle) -> None:
    report = run_laws(oracle, 7, 800)

    assert report.differences == []
    assert report.expressions >= 800
