import pytest

from proxy.core.requestinfo.selectors import FieldRequirement, exact_match, parse_field_selector
from tests.core.vectors import SelectorVector, load


@pytest.mark.parametrize("vector", load("field_selectors", SelectorVector), ids=lambda v: v["Text"])
def test_a_field_selector_means_what_it_means_to_kubernetes(vector: SelectorVector) -> None:
    parsed = parse_field_selector(vector["Text"])

    if not vector["Parses"]:
        assert parsed is None
    else:
        assert parsed == tuple(map(tuple, vector["Requirements"] or []))


def test_the_first_demand_for_a_field_is_an_exact_match() -> None:
    requirements = (
        FieldRequirement("a", "!=", "1"),
        FieldRequirement("b", "=", "2"),
        FieldRequirement("b", "=", "3"),
    )

    assert exact_match(requirements, "b") == "2"
    assert exact_match(requirements, "a") is None
    assert exact_match((), "a") is None
