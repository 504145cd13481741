"""The laws of partial evaluation, checked by the oracle for random conditions and splits.

Law 1: the residual has the outcome of the condition (true, false or error) for every value of the
unknown. Law 2: it names no known variable. Law 3: it compiles in the Kubernetes environment.
"""

from random import Random

from proxy.core.cel.environment import POLICY_ENVIRONMENT
from proxy.core.cel.errors import CelCompileError
from proxy.core.cel.partial.names import uses
from proxy.core.cel.partial.pruning import prune_errors
from proxy.core.cel.partial.residual import Residual, partially_evaluate
from proxy.core.cel.syntax.parser import parse
from proxy.core.cel.syntax.printer import print_expression
from tests.cel_differential.comparison import CelReport, Difference
from tests.cel_differential.generator import ExpressionGenerator, random_input
from tests.support.cel_oracle import Answer, CelOracle, Question

ROOTS = tuple(POLICY_ENVIRONMENT.variables)
_SAMPLES = 3


def run_laws(oracle: CelOracle, seed: int, cases: int) -> CelReport:
    """Check random conditions; each with a random split and three values of the unknown."""
    random = Random(seed)
    generator = ExpressionGenerator(random)
    report = CelReport()
    while report.expressions < cases:
        _run_batch(oracle, random, generator, report)
    return report


def _run_batch(
    oracle: CelOracle, random: Random, generator: ExpressionGenerator, report: CelReport
) -> None:
    questions: list[Question] = []
    for _ in range(100):
        asked = _questions(random, generator.of("bool", random.choice((2, 3, 4))), report)
        questions += asked
    answers = oracle.ask(questions)
    for index in range(0, len(questions), 4):
        _check(questions[index : index + 4], answers[index : index + 4], report)


def _questions(random: Random, expression: str, report: CelReport) -> list[Question]:
    """Return the condition, its residual and the two pruned ones."""
    try:
        program = POLICY_ENVIRONMENT.compile_condition(expression)
    except CelCompileError:
        return []
    unknown = frozenset(random.sample(ROOTS, random.randint(1, 4))) | {"object"}
    samples = [random_input(random) for _ in range(_SAMPLES)]
    known = {name: value for name, value in samples[0].items() if name not in unknown}
    report.expressions += 1
    try:
        residual = partially_evaluate(POLICY_ENVIRONMENT, program, known, unknown)
    except CelCompileError as error:
        report.differences.append(Difference("law 3", expression, "compiles", str(error)))
        return []
    _check_text(expression, residual, frozenset(known), report)
    inputs = [known | {name: each[name] for name in unknown} for each in samples]
    left: list[dict[str, object]] = [{name: each[name] for name in unknown} for each in samples]
    texts = [
        residual.text,
        print_expression(prune_errors(residual.tree, error_counts_as=False)),
        print_expression(prune_errors(residual.tree, error_counts_as=True)),
    ]
    questions: list[Question] = [{"expression": expression, "inputs": inputs}]
    questions += [Question(expression=text, inputs=left) for text in texts]
    return questions


def _check_text(
    expression: str, residual: Residual, known: frozenset[str], report: CelReport
) -> None:
    if uses(residual.tree, known):
        report.differences.append(Difference("law 2", expression, "", residual.text))
    if parse(residual.text) != residual.tree:
        report.differences.append(Difference("printing", expression, "", residual.text))


def _check(questions: list[Question], answers: list[Answer], report: CelReport) -> None:
    original, exact, allow, deny = [_outcomes(answer) for answer in answers]
    expression, text = questions[0]["expression"], questions[1]["expression"]
    report.values += original.count("true") + original.count("false")
    report.errors += original.count("error")
    if original != exact:
        difference = Difference("law 1", expression, str(original), f"{exact} {text}")
        difference.variables = questions[0]["inputs"]
        report.differences.append(difference)
    if [each == "true" for each in original] != [each == "true" for each in allow]:
        shown = f"{allow} {questions[2]['expression']}"
        report.differences.append(Difference("allow law", expression, str(original), shown))
    if [each != "false" for each in original] != [each != "false" for each in deny]:
        shown = f"{deny} {questions[3]['expression']}"
        report.differences.append(Difference("deny law", expression, str(original), shown))


def _outcomes(answer: Answer) -> list[str]:
    refusal = answer.get("compileError") or answer.get("programError")
    if refusal:
        return [f"refused: {refusal}"] * _SAMPLES
    return [
        {True: "true", False: "false"}[outcome["value"][1]]  # type: ignore[index]
        if "value" in outcome and outcome["value"][0] == "bool"  # type: ignore[index]
        else "error"
        for outcome in answer["outcomes"]
    ]
