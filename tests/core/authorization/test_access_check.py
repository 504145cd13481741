from proxy.core.authorization.access_check import (
    field_requirements,
    label_requirements,
    raw_field_selector,
)
from proxy.core.requestinfo.selectors import parse_field_selector, parse_label_selector


def test_field_requirements_reach_a_review_as_sets() -> None:
    fields = parse_field_selector("a=1,b==2,c!=3")

    assert field_requirements(fields or ()) == [
        ("a", "In", ("1",)),
        ("b", "In", ("2",)),
        ("c", "NotIn", ("3",)),
    ]


def test_label_requirements_reach_a_review_and_comparisons_do_not() -> None:
    labels = parse_label_selector("a,!b,c=1,d==2,e!=3,f in (y,x),g notin (z),h>1,i<2")

    assert label_requirements(labels or ()) == [
        ("a", "Exists", ()),
        ("b", "DoesNotExist", ()),
        ("c", "In", ("1",)),
        ("d", "In", ("2",)),
        ("e", "NotIn", ("3",)),
        ("f", "In", ("x", "y")),
        ("g", "NotIn", ("z",)),
    ]


def test_an_empty_field_travels_as_text_that_is_read_in_the_same_way() -> None:
    selector = r"=x,a!=b\,c\=d\\e"
    requirements = parse_field_selector(selector)
    assert requirements is not None

    raw = raw_field_selector(requirements)

    assert parse_field_selector(raw) == requirements
