"""What is granted for checks allows them, and nothing that they do not imply."""

from dataclasses import replace
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.core.authorization.access_check import AccessCheck
from proxy.core.rbac.grants import rbac_objects_for
from proxy.core.rbac.model import Subject, read_rbac
from proxy.core.userinfo import UserInfo

JANE = UserInfo("jane")
ASKED = [
    AccessCheck(
        JANE,
        verb,
        group=group,
        resource=resource,
        subresource=subresource,
        namespace=namespace,
        name=name,
    )
    for verb, group, resource, subresource, namespace, name in product(
        ("get", "list"),
        ("", "apps"),
        ("pods", "nodes"),
        ("", "exec"),
        ("", "a", "b"),
        ("", "x", "y"),
    )
] + [
    AccessCheck(JANE, verb, is_resource=False, path=path)
    for verb, path in product(("get", "post"), ("/a", "/a/b", "/c"))
]


def implies(granted: AccessCheck, check: AccessCheck) -> bool:
    """Tell whether RBAC cannot grant the one without the other."""
    whole = granted
    if not granted.namespace:
        whole = replace(whole, namespace=check.namespace)
    if not granted.name:
        whole = replace(whole, name=check.name)
    return whole == check


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(ASKED), min_size=1, max_size=12))
def test_a_grant_allows_exactly_what_its_checks_imply(needed: list[AccessCheck]) -> None:
    rbac = read_rbac(rbac_objects_for(Subject("User", "jane"), needed))

    for check in ASKED:
        expected = any(implies(granted, check) for granted in needed)
        assert rbac.allows(check) == expected, check
        assert not rbac.allows(replace(check, user=UserInfo("eve")))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from(ASKED), min_size=1, max_size=12))
def test_neither_order_nor_repetition_matters(needed: list[AccessCheck]) -> None:
    again = [*reversed(needed), *needed]

    assert rbac_objects_for(Subject("User", "jane"), again) == rbac_objects_for(
        Subject("User", "jane"), needed
    )
