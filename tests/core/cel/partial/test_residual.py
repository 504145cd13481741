import pytest

from proxy.core.cel.environment import POLICY_ENVIRONMENT
from proxy.core.cel.partial.residual import Residual, partially_evaluate
from proxy.core.cel.values.kinds import Value

NODE_POLICY = (
    'request.verb == "impersonate" && request.resource == "nodes" && request.name == "foo" '
    '&& request.apiGroup == "authentication.k8s.io" && request.userInfo.username == "lucas" '
    '&& impersonatedRequest.apiGroup == "" && impersonatedRequest.resource == "pods" '
    '&& impersonatedRequest.verb == "get"'
)
REQUEST: dict[str, Value] = {
    "verb": "impersonate",
    "resource": "nodes",
    "name": "foo",
    "apiGroup": "authentication.k8s.io",
    "userInfo": {"username": "lucas", "groups": ["g1"]},
}
LATER = frozenset(("object", "oldObject", "options", "impersonatedRequest", "namespaceObject"))


def residual(expression: str, **request: Value) -> Residual:
    program = POLICY_ENVIRONMENT.compile(expression)
    return partially_evaluate(POLICY_ENVIRONMENT, program, {"request": REQUEST | request}, LATER)


def test_i1_the_conditions_on_the_impersonated_request_are_left() -> None:
    assert residual(NODE_POLICY).text == (
        'impersonatedRequest.apiGroup == "" && impersonatedRequest.resource == "pods" '
        '&& impersonatedRequest.verb == "get"'
    )


@pytest.mark.parametrize(
    "request_part",
    [{"userInfo": {"username": "eve"}}, {"name": "bar"}, {"apiGroup": "", "resource": "users"},
     {"verb": "impersonate:arbitrary-node"}],
)  # fmt: skip
def test_i2_another_request_is_decided_at_once(request_part: dict[str, Value]) -> None:
    assert residual(NODE_POLICY, **request_part).decided is False


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({"apiGroup": "", "resource": "pods", "verb": "get"}, True),
        ({"apiGroup": "", "resource": "pods", "verb": "list"}, False),
        ({"apiGroup": "", "resource": "secrets", "verb": "get"}, False),
        ({"apiGroup": "", "resource": "pods", "subresource": "log", "verb": "get"}, True),
    ],
)
def test_i3_to_i5_the_residual_decides(asked: dict[str, Value], *, wanted: bool) -> None:
    program = POLICY_ENVIRONMENT.compile_condition(residual(NODE_POLICY).text)

    assert program.evaluate({"impersonatedRequest": asked}).value is wanted


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ('request.name == "foo" && object.x == 1', "object.x == 1"),
        ("object.name == request.userInfo.username", 'object.name == "lucas"'),
        ("object.x == 1 && request.missing == 2", "object.x == 1 && dyn(1 / 0)"),
        ("request.missing == 2", "dyn(1 / 0)"),
        ('request.name == "foo" && object.flag', "object.flag && true"),
        ('{"a": request.name, "b": object.x}.a == "foo"',
         '{"a": dyn("foo"), "b": object.x}.a == "foo"'),
        ('object.s.matches("(" + request.name)', 'object.s.matches([dyn("(foo")][0])'),
        ('request.userInfo.groups.exists(g, g == object.g)', '"g1" == object.g'),
        ("request.name", "dyn(1 / 0)"),
    ],
)  # fmt: skip
def test_texts_of_residuals(expression: str, text: str) -> None:
    found = residual(expression)

    assert found.text == text
    assert found.failed is (text == "dyn(1 / 0)")


def test_the_same_input_gives_the_same_text() -> None:
    assert residual(NODE_POLICY) == residual(NODE_POLICY)
