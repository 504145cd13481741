import pytest

from proxy.core.requestinfo.selectors import parse_label_selector
from tests.core.vectors import SelectorVector, load


@pytest.mark.parametrize("vector", load("label_selectors", SelectorVector), ids=lambda v: v["Text"])
def test_a_label_selector_means_what_it_means_to_kubernetes(vector: SelectorVector) -> None:
    parsed = parse_label_selector(vector["Text"])

    if not vector["Parses"]:
        assert parsed is None
    else:
        rows = [[key, operator, *values] for key, operator, values in parsed or ()]
        assert rows == vector["Requirements"]
