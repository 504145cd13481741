"""Which callers have a pod and no node."""

import pytest

from proxy.core.impersonation.modes import BoundPod, pod_bound_without_node
from proxy.core.userinfo import NODE_NAME_KEY, UserInfo, make_extra

ACCOUNT = "system:serviceaccount:agents:agent"
NAME, UID = "authentication.kubernetes.io/pod-name", "authentication.kubernetes.io/pod-uid"
BOUND = {NAME: ["agent-1"], UID: ["u-1"]}


def test_a_token_of_a_pod_that_names_no_node_has_something_to_find_out() -> None:
    caller = UserInfo(ACCOUNT, extra=make_extra({**BOUND, "other": ["1"]}))

    assert pod_bound_without_node(caller) == BoundPod("agents", "agent", "agent-1", "u-1")


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        pytest.param(ACCOUNT, {}, id="no pod"),
        pytest.param(ACCOUNT, {**BOUND, NODE_NAME_KEY: ["n1"]}, id="a node is named"),
        pytest.param(ACCOUNT, {**BOUND, NODE_NAME_KEY: []}, id="a node is named oddly"),
        pytest.param(ACCOUNT, {NAME: ["agent-1"]}, id="no uid"),
        pytest.param(ACCOUNT, {UID: ["u-1"]}, id="no name"),
        pytest.param(ACCOUNT, {**BOUND, NAME: ["a", "b"]}, id="two names"),
        pytest.param(ACCOUNT, {**BOUND, UID: ["u-1", "u-2"]}, id="two uids"),
        pytest.param(ACCOUNT, {**BOUND, UID: [""]}, id="an empty uid"),
        pytest.param(ACCOUNT, {**BOUND, NAME: [""]}, id="an empty name"),
        pytest.param(ACCOUNT, {**BOUND, NAME: ["../secrets/s"]}, id="a name that is a path"),
        pytest.param(ACCOUNT, {**BOUND, NAME: ["agent-1?x=y"]}, id="a name with a query"),
        pytest.param("bob", BOUND, id="no service account"),
        pytest.param("system:serviceaccount:agents", BOUND, id="half a service account"),
    ],
)
def test_for_anybody_else_there_is_nothing_to_find_out(
    name: str, extra: dict[str, list[str]]
) -> None:
    assert pod_bound_without_node(UserInfo(name, extra=make_extra(extra))) is None
