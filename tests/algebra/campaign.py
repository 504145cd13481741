"""A run of many cases against one version of the oracle, and what came of it."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

from proxy.core.authorization.rules import AlgebraRules, subdomain_errors
from tests.algebra.cases import ConditionNode, Node, make_cases
from tests.algebra.oracle import AlgebraOracle, Published, Result, running_algebra
from tests.algebra.ours import play
from tests.algebra.shrinking import shrink

_BATCH = 100
_ENOUGH_DISAGREEMENTS = 3

Player = Callable[[Node, AlgebraRules], Result]


@dataclass(slots=True)
class Report:
    """`reproductions` shows each disagreement in its smallest form."""

    cases: int = 0
    disagreements: int = 0
    kept_open: int = 0
    """Cases of the intended deviation: an Allow condition that stays open beside an error."""
    made_laxer: int = 0
    """Those of them whose final decision is Allow, and NoOpinion in the published code."""
    two_phases: int = 0
    """Cases whose decision in two phases was compared with the one in one phase."""
    seen: Counter[str] = field(default_factory=Counter)
    reproductions: list[str] = field(default_factory=list)

    def add(self, other: "Report") -> None:
        """Take the findings of another run."""
        self.cases += other.cases
        self.disagreements += other.disagreements
        self.kept_open += other.kept_open
        self.made_laxer += other.made_laxer
        self.two_phases += other.two_phases
        self.seen += other.seen
        self.reproductions += other.reproductions

    def __str__(self) -> str:
        return (
            f"{self.cases} cases, {self.disagreements} disagreements, {self.kept_open} deviations"
            f" (an Allow stays open; {self.made_laxer} end in Allow),"
            f" {self.two_phases} compared in two phases"
        )


def run_campaign(published: Published, *, seed: int, cases: int, player: Player = play) -> Report:
    """Compare that many trees with the published code; stop early when enough is wrong."""
    report = Report()
    with running_algebra(published) as oracle:
        campaign = _Campaign(oracle, published.rules, player, report)
        for batch, results in _answered(oracle, _batches(seed, cases)):
            for root, native in zip(batch, results, strict=True):
                campaign.compare(root, native)
            if report.disagreements >= _ENOUGH_DISAGREEMENTS:
                break
    with running_algebra(published) as oracle:
        campaign.reproduce(oracle)
    return report


def _batches(seed: int, cases: int) -> Iterator[list[Node]]:
    generated = make_cases(seed, cases)
    while batch := list(islice(generated, _BATCH)):
        yield batch


def _answered(
    oracle: AlgebraOracle, batches: Iterator[list[Node]]
) -> Iterator[tuple[list[Node], list[Result]]]:
    """Yield each batch with its results. It is generated and compared while another is answered."""
    waiting: list[Node] | None = None
    for batch in batches:
        results = oracle.receive() if waiting is not None else []
        oracle.send(batch)
        if waiting is not None:
            yield waiting, results
        waiting = batch
    if waiting is not None:
        yield waiting, oracle.receive()


@dataclass(slots=True)
class _Campaign:
    """Both sides, and what is known so far."""

    oracle: AlgebraOracle
    rules: AlgebraRules
    player: Player
    report: Report
    wrong: list[Node] = field(default_factory=list)

    def compare(self, root: Node, native: Result) -> None:
        report = self.report
        report.cases += 1
        report.seen.update(_seen(native))
        kept = self.player(root, self.rules)
        if self._difference(root, native, kept) is not None:
            report.disagreements += 1
            self.wrong.append(root)
            return
        report.two_phases += _two_phases(root, kept) is not None
        if _without_unaware(native) != kept:
            report.kept_open += 1
            report.made_laxer += _final(kept) == "Allow" and _final(native) == "NoOpinion"

    def _difference(self, root: Node, native: Result, kept: Result) -> str | None:
        """Return how the sides differ, apart from the deviation and within its bounds."""
        comparable = _without_unaware(native)
        if kept != comparable:
            upstream = self.player(root, replace(self.rules, keeps_allows_open=False))
            if upstream != comparable:
                return _first_difference(comparable, upstream)
            if not _may_stay_open(root):
                return "deviates without an Allow condition that is open beside an error"
            if changed := _changed_keys(comparable, kept) - _MAY_DEVIATE:
                return f"deviates in {sorted(changed)}"
        if (decisions := _two_phases(root, kept)) is not None and len(set(decisions)) > 1:
            return f"one phase: {decisions[0]}, two phases: {decisions[1]}"
        return _unaware_difference(root, native)

    def reproduce(self, oracle: AlgebraOracle) -> None:
        """Show each disagreement in its smallest form."""

        def difference(root: Node) -> str | None:
            [native] = oracle.ask([root])
            return self._difference(root, native, self.player(root, self.rules))

        for root in self.wrong[:_ENOUGH_DISAGREEMENTS]:
            smallest = shrink(root, lambda candidate: difference(candidate) is not None)
            self.report.reproductions.append(f"{json.dumps(smallest)}\n{difference(smallest)}")


_MAY_DEVIATE = frozenset({"partial", "partialTrace", "chain.afterPartial", "chain.lateTrace"})


def has_ordinary_evaluators(root: Node) -> bool:
    """Return whether every authorizer evaluates its own decision, at the first and second time."""
    names = [member["name"] for member in root["members"]]
    # A chain with such names does not exist, although a union may end before the repeated one.
    if "" in names or len(set(names)) < len(names):
        return False
    return all(
        member["evaluator"] == "own" and has_ordinary_evaluators(member)
        for member in root["members"]
    )


def _two_phases(root: Node, result: Result) -> tuple[str, str] | None:
    """Return the decisions of one phase and of two, where each authorizer evaluates its own."""
    chain = result["chain"]
    if chain is None or chain["asked"] is None or not has_ordinary_evaluators(root):
        return None
    one, two = chain["evaluated"], chain["afterPartial"]
    if chain["asked"]["kind"] != "Union" or one is None or two is None:
        return None
    return one["decision"], two["decision"]


def _without_unaware(native: Result) -> Result:
    chain = native["chain"]
    if chain is None or chain["unaware"] is None:
        return native
    return {**native, "chain": {**chain, "unaware": None}}


def _unaware_difference(root: Node, native: Result) -> str | None:
    """Return how the unaware method of a chain differs from folding its aware decision."""
    chain, folded = native["chain"], native["foldClosed"]
    if chain is None or folded is None or (unaware := chain["unaware"]) is None:
        return None
    # The names of a union are only checked on the aware way.
    same = unaware["decision"] == folded["decision"] or not _has_valid_names(root)
    return None if same else f"unaware: {unaware}, folded: {folded}"


def _changed_keys(one: Result, other: Result) -> set[str]:
    changed = {key for key in one if key != "chain" and one[key] != other[key]}  # type: ignore[literal-required]
    inner = [one["chain"], other["chain"]]
    if inner[0] is None or inner[1] is None:
        return changed
    return changed | {f"chain.{key}" for key in inner[0] if inner[0][key] != inner[1][key]}  # type: ignore[literal-required]


def _first_difference(native: Result, ours: Result) -> str:
    key = min(_changed_keys(native, ours))
    return f"{key}:\n  native {_value(native, key)}\n  ours   {_value(ours, key)}"


def _value(result: Result, key: str) -> str:
    outer, _, inner = key.partition(".")
    value = result[outer]  # type: ignore[literal-required]
    return json.dumps(value[inner] if inner else value)


def _has_valid_names(node: Node) -> bool:
    names = [member["name"] for member in node["members"]]
    is_valid = len(set(names)) == len(names) and not any(map(subdomain_errors, names))
    return is_valid and all(map(_has_valid_names, node["members"]))


def _may_stay_open(node: Node) -> bool:
    """Return whether an Allow condition may be open beside another that is an error."""
    allow = node["allow"]
    is_open = any(one["own"] == "unevaluatable" for one in allow)
    failed = any(_may_fail(one) for one in allow)
    return (is_open and failed) or any(map(_may_stay_open, node["members"]))


def _may_fail(condition: ConditionNode) -> bool:
    results = (condition["own"], condition["callback"])
    return any(result == "nil" or result.startswith("error:") for result in results)


def _final(result: Result) -> str:
    chain = result["chain"]
    after = None if chain is None else chain["afterPartial"]
    return "" if after is None else after["decision"]


def _seen(native: Result) -> Iterator[str]:
    yield f"built {native['built']['kind']}"
    yield f"partial {native['partial']['kind']}"
    if native["built"]["reason"] == "failed closed":
        yield "failed closed"
    chain = native["chain"]
    if chain is not None:
        yield "chain refused" if chain["newError"] else "chain"
        if chain["evaluated"] is not None:
            yield f"evaluated {chain['evaluated']['decision']}"
