"""What the engine and the oracle make of an expression, and whether it is the same."""

from dataclasses import dataclass, field
from random import Random
from typing import cast

from proxy.core.cel.environment import POLICY_ENVIRONMENT, CelEnvironment, CelOutcome
from proxy.core.cel.errors import CelCompileError
from tests.cel_differential.generator import ExpressionGenerator, random_input
from tests.cel_differential.tagged import encode, normalize
from tests.support.cel_oracle import Answer, CelOracle, Outcome, Question

# Beginnings of run-time errors that mean the same kind of failure.
ERROR_CLASSES = (
    "no such overload", "no such key", "no such attribute", "index out of bounds",
    "unsupported index", "division by zero", "modulus by zero", "integer overflow",
    "unsigned integer overflow", "timestamp overflow", "duration overflow",
    "type conversion error", "optional.none() dereference", "invalid qualifier type",
    "operation cancelled", "index out of range", "NaN values cannot be ordered",
    "unknown time zone", "invalid UTF-8", "internal error",
)  # fmt: skip


@dataclass(slots=True)
class Difference:
    """An expression with an input for which the two disagree."""

    kind: str
    expression: str
    native: str
    ours: str
    variables: object = None

    def __str__(self) -> str:
        return (
            f"{self.kind}: {self.expression}\n  native: {self.native}\n  ours:   {self.ours}\n"
            f"  input:  {self.variables}"
        )


@dataclass(slots=True)
class CelReport:
    """How many expressions agreed, by what came of them."""

    expressions: int = 0
    refused: int = 0
    values: int = 0
    errors: int = 0
    exact_costs: int = 0
    close_costs: int = 0
    differences: list[Difference] = field(default_factory=list)

    def add(self, other: "CelReport") -> None:
        self.expressions += other.expressions
        self.refused += other.refused
        self.values += other.values
        self.errors += other.errors
        self.exact_costs += other.exact_costs
        self.close_costs += other.close_costs
        self.differences += other.differences

    def __str__(self) -> str:
        return (
            f"{self.expressions} expressions, {self.refused} refused by both, "
            f"{self.values} values, {self.errors} errors, "
            f"costs {self.exact_costs} exact and {self.close_costs} within 10 %, "
            f"{len(self.differences)} differences"
        )


def error_class(message: str) -> str:
    """Return the kind of a run-time error."""
    for known in ERROR_CLASSES:
        if message.startswith(known):
            return known
    return "other"


def run(oracle: CelOracle, seed: int, cases: int, *, batch: int = 200) -> CelReport:
    """Compare random expressions, each for two random inputs."""
    random = Random(seed)
    generator = ExpressionGenerator(random)
    report = CelReport()
    for start in range(0, cases, batch):
        questions: list[Question] = [
            {
                "expression": generator.expression(),
                "inputs": [random_input(random) for _ in range(2)],
            }
            for _ in range(min(batch, cases - start))
        ]
        for question, answer in zip(questions, oracle.ask(questions), strict=True):
            compare(question, answer, report)
    return report


def compare(
    question: Question,
    answer: Answer,
    report: CelReport,
    environment: CelEnvironment = POLICY_ENVIRONMENT,
) -> None:
    """Add one expression to a report."""
    report.expressions += 1
    expression = question["expression"]
    refusal = answer.get("compileError") or answer.get("programError")
    try:
        program = environment.compile(expression)
    except CelCompileError as error:
        if refusal:
            report.refused += 1
        else:
            difference = Difference("compile", expression, "compiles", f"refused: {error}")
            report.differences.append(difference)
        return
    if refusal:
        difference = Difference("compile", expression, f"refused: {refusal}", "compiles")
        report.differences.append(difference)
        return
    for variables, native in zip(question["inputs"], answer["outcomes"], strict=True):
        ours = program.evaluate(variables)
        _compare_outcome(report, (expression, variables), native, ours)


def _compare_outcome(
    report: CelReport, asked: tuple[str, object], native: Outcome, ours: CelOutcome
) -> None:
    expression, variables = asked
    native_error = native.get("error")
    if native_error is not None or ours.error is not None:
        same = (
            native_error is not None
            and ours.error is not None
            and error_class(native_error) == error_class(ours.error)
        )
        report.errors += same
        shown = (native_error or str(native.get("value")), ours.error or str(ours.value))
    else:
        wanted = normalize(native["value"])
        same = wanted == cast("object", encode(ours.value))
        report.values += same
        shown = (str(wanted), str(encode(ours.value)))
    if not same:
        report.differences.append(Difference("outcome", expression, *shown, variables))
    elif native["cost"] == ours.cost or (native_error or "").startswith("internal error"):
        # After a panic of the native evaluation its cost is that of an unknown part.
        report.exact_costs += 1
    elif abs(native["cost"] - ours.cost) <= native["cost"] * 0.1:
        report.close_costs += 1
    else:
        costs = (str(native["cost"]), str(ours.cost))
        report.differences.append(Difference("cost", expression, *costs, variables))
