"""Output of explanations: the text tree, the document, and untrusted names in both."""

from collections.abc import Callable

import pytest
import yaml

from proxy.analysis.explain import (
    ExplainResult,
    GrantOptions,
    build_result,
    describe_request,
)
from proxy.analysis.explain_output import render_document, render_text
from proxy.analysis.output import Colors
from proxy.core.authorization.access_check import AccessCheck, CheckResult
from proxy.core.explain.explainer import explain
from proxy.core.explain.explanation import DecisionContext, ExplainRequest
from proxy.core.explain.recorded_request import RecordedOutcome
from proxy.core.impersonation.checks import ImpersonationRules
from proxy.core.requestinfo.request_info import RequestInfo, parse_request_info
from proxy.core.userinfo import Caller, UserInfo, make_extra

BOB, ALICE = UserInfo("bob"), UserInfo("alice")
LIST_PODS = b"/api/v1/namespaces/web/pods"
PLAIN = Colors()
RECORDED = RecordedOutcome(
    audit_id="id-1",
    received_at="2026-11-16T04:00:00Z",
    code=403,
    message="not allowed",
    constraint="impersonate:user-info",
    annotations={"mode": "user-info", "wanted": "{}"},
)


def explained(
    is_allowed: Callable[[AccessCheck], bool],
    *,
    caller: UserInfo = BOB,
    wanted_user: UserInfo | None = ALICE,
    target: bytes | RequestInfo = LIST_PODS,
    reason: str = "",
    options: GrantOptions = GrantOptions(),  # noqa: B008 - immutable
) -> ExplainResult:
    """Return the explanation of a GET request, with scripted access checks."""
    info = target if isinstance(target, RequestInfo) else parse_request_info(b"GET", target)
    request = ExplainRequest(Caller(caller), wanted_user, info)
    steps = explain(request, DecisionContext(ImpersonationRules()))
    try:
        check = next(steps)
        while True:
            check = steps.send(CheckResult(is_allowed(check), reason))
    except StopIteration as finished:
        return build_result(finished.value, options=options)


def everything(_: AccessCheck) -> bool:
    return True


def nothing(_: AccessCheck) -> bool:
    return False


def only_constrained(check: AccessCheck) -> bool:
    """Allow the caller to impersonate, but not the target to act."""
    return check.verb.startswith(("impersonate:", "impersonate-on:"))


def only_legacy(check: AccessCheck) -> bool:
    return not only_constrained(check)


def only_target(check: AccessCheck) -> bool:
    return not check.verb.startswith("impersonate")


def text_of(
    result: ExplainResult, *, recorded: RecordedOutcome | None = None, notes: tuple[str, ...] = ()
) -> str:
    return render_text(result, PLAIN, recorded=recorded, notes=list(notes))


def lines_of(result: ExplainResult) -> list[str]:
    return text_of(result).splitlines()


def test_allowed_request_is_a_tree_without_response_and_grant() -> None:
    lines = lines_of(explained(everything))

    assert lines[0] == "bob as alice: list pods in web: allowed"
    assert lines[1] == "├─ modes, in evaluation order"
    assert "│  ├─ user-info: allowed; alice is neither a node nor a service account" in lines
    assert "│  │  ├─ yes  impersonate-on:user-info:list pods in web" in lines
    assert lines[-2:] == ["└─ alice's own permission", "   └─ yes  list pods in web"]


def test_denied_request_has_the_response_and_the_grant_that_allows_it() -> None:
    text = text_of(explained(only_target))
    tree, _, manifests = text.partition("---\n")

    assert tree.startswith("bob as alice: list pods in web: denied\n")
    assert "no   impersonate-on:user-info:list pods in web" in tree
    assert "[not checked for this request, but required]" in tree
    assert "response to the client, from the proxy\n" in tree
    assert "403 pods is forbidden" in tree
    assert "to allow exactly this, in user-info mode: the objects below" in tree
    kinds = {manifest["kind"] for manifest in yaml.safe_load_all(manifests)}
    assert kinds == {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}


def test_no_grant_is_printed_if_the_target_lacks_its_own_permission() -> None:
    text = text_of(explained(nothing))

    assert "no grant to bob helps: alice itself may not list pods in web" in text
    assert "to allow exactly this" not in text
    assert "---\n" not in text
    assert "no grant to bob helps" not in text_of(explained(only_target))


def test_grant_that_the_target_cannot_use_is_printed_on_request_with_a_warning() -> None:
    text = text_of(explained(nothing, options=GrantOptions(anyway=True)))

    assert "   └─ alice itself may not list pods in web\n" in text
    assert "---\n" in text


def test_denial_without_impersonation_names_an_ordinary_role() -> None:
    result = explained(nothing, wanted_user=None)

    assert "bob itself may not list pods in web: an ordinary role" in text_of(result)
    assert "grant to" not in text_of(result)
    assert result.grant == ()


def test_denial_of_the_target_comes_from_the_api_server_without_a_grant() -> None:
    text = text_of(explained(only_constrained))

    assert text.startswith("bob as alice: list pods in web: denied\n")
    assert "response to the client, from the API server" in text
    assert "no grant to bob helps: alice itself may not list pods in web" in text
    assert "---\n" not in text


def test_request_allowed_by_legacy_has_the_grant_that_replaces_it() -> None:
    text = text_of(explained(only_legacy))

    assert "├─ legacy: allowed" in text or "└─ legacy: allowed" in text
    assert "to replace legacy impersonation, in user-info mode" in text
    assert "to allow exactly this" not in text


@pytest.mark.parametrize(
    ("is_allowed", "heading"),
    [
        (only_legacy, "only legacy impersonation: "),
        (only_target, "no grant can allow this: "),
    ],
)
def test_request_that_no_grant_can_allow_has_the_reason(
    is_allowed: Callable[[AccessCheck], bool], heading: str
) -> None:
    node = UserInfo("system:node:n1", groups=("system:nodes",))

    result = explained(is_allowed, wanted_user=node)

    assert result.no_grant_reason
    assert f"{heading}{result.no_grant_reason}" in text_of(result)
    assert "---\n" not in text_of(result)


def test_request_without_impersonation_has_no_modes() -> None:
    assert lines_of(explained(everything, wanted_user=None)) == [
        "bob: list pods in web: allowed",
        "└─ bob's own permission",
        "   └─ yes  list pods in web",
    ]


def test_parts_of_the_wanted_user_are_in_the_first_line() -> None:
    user = UserInfo("alice", "7", ("ops", "dev"), make_extra({"k": ["v", "w"]}))

    first = lines_of(explained(everything, wanted_user=user))[0]

    assert first.startswith("bob as alice (uid 7, group ops, group dev, k=v, k=w): ")


def test_control_characters_of_untrusted_text_do_not_reach_the_terminal() -> None:
    hostile = "a\x1b[2J\nb"
    recorded = RecordedOutcome(hostile, hostile, 200, hostile, hostile, {"mode": hostile})
    result = explained(
        nothing,
        caller=UserInfo(hostile),
        wanted_user=UserInfo(hostile, hostile, (hostile,)),
        target=RequestInfo("get", hostile, is_resource=True, resource="pods", name=hostile),
        reason=hostile,
    )

    text = text_of(result, recorded=recorded)

    assert "\x1b" not in text
    assert "a\\u001b[2J\\nb" in text
    assert describe_request(result.explanation.request) == "get pods a\\u001b[2J\\nb"


def test_colors_are_used_only_if_enabled() -> None:
    result = explained(only_target)

    text = render_text(result, Colors(is_enabled=True), recorded=None, notes=[])

    assert "\x1b[31mdenied\x1b[0m" in text
    assert "\x1b" not in text_of(result)


def test_recorded_outcome_and_notes_are_part_of_the_tree() -> None:
    lines = text_of(explained(everything), recorded=RECORDED, notes=("a note",)).splitlines()

    assert lines[1:5] == [
        "├─ recorded 2026-11-16T04:00:00Z as id-1; below, by the current rules",
        "│  ├─ response 403 not allowed",
        "│  ├─ constraint: impersonate:user-info",
        "│  └─ mode: user-info",
    ]
    assert lines[-1] == "└─ note: a note"


def test_recorded_outcome_without_code_and_constraint_leaves_them_out() -> None:
    recorded = RecordedOutcome("id-1", "", None, "", "", {})

    lines = text_of(explained(everything), recorded=recorded).splitlines()
    document = render_document(explained(everything), recorded=recorded, notes=[])

    assert lines[2:4] == ["│  └─ response", "├─ modes, in evaluation order"]
    assert document["recorded"] == {
        "auditID": "id-1",
        "requestReceivedTimestamp": "",
        "code": None,
        "message": "",
        "constraint": None,
        "annotations": {},
    }


def test_document_of_an_allowed_request_has_neither_response_nor_grant() -> None:
    document = render_document(explained(everything), recorded=None, notes=["a note"])

    assert (document["allowed"], document["mayAct"], document["mode"]) == (True, True, "user-info")
    assert (document["answer"], document["grant"], document["noGrant"]) == (None, [], None)
    assert document["notes"] == ["a note"]
    assert "recorded" not in document
    assert document["caller"] == {"username": "bob", "uid": "", "groups": [], "extra": {}}
    assert document["action"] == {
        "verb": "list",
        "group": "",
        "version": "v1",
        "resource": "pods",
        "subresource": "",
        "namespace": "web",
        "name": "",
    }


def test_document_of_a_denied_request_has_the_response_the_modes_and_the_grant() -> None:
    result = explained(nothing, reason="no rule", options=GrantOptions(anyway=True))
    document = render_document(result, recorded=None, notes=[])

    assert (document["allowed"], document["mayAct"], document["mode"]) == (False, False, None)
    answer, modes, own = document["answer"], document["modes"], document["ownRight"]
    assert isinstance(answer, dict)
    assert (answer["code"], answer["from"]) == (403, "proxy")
    assert isinstance(own, dict)
    assert own["allowed"] is False
    assert isinstance(modes, list)
    by_mode = {mode["mode"]: mode for mode in modes}
    assert by_mode["user-info"]["outcome"] == "denied"
    assert by_mode["arbitrary-node"]["outcome"] == "not applicable"
    first = by_mode["user-info"]["reviews"][0]
    assert (first["user"]["username"], first["allowed"], first["reason"]) == (
        "bob",
        False,
        "no rule",
    )
    assert first["attributes"]["verb"] == "impersonate-on:user-info:list"
    assert by_mode["user-info"]["neededBeyond"] != []
    assert document["grantMode"] == "user-info"
    assert document["grant"] == list(result.grant) != []


def test_document_of_a_denied_target_names_the_api_server() -> None:
    document = render_document(explained(only_constrained), recorded=None, notes=[])

    answer = document["answer"]
    assert isinstance(answer, dict)
    assert answer["from"] == "API server"
    assert (document["mayAct"], document["allowed"]) == (True, False)


def test_document_without_impersonation_has_no_wanted_user() -> None:
    document = render_document(explained(everything, wanted_user=None), recorded=None, notes=[])

    assert (document["wanted"], document["modes"], document["mode"]) == (None, [], None)
    assert document["acting"] == document["caller"]


def test_attributes_of_a_path_and_of_selectors_are_complete() -> None:
    path = render_document(explained(everything, target=b"/version"), recorded=None, notes=[])
    selected = render_document(
        explained(
            everything, target=LIST_PODS + b"?fieldSelector=spec.nodeName%3Dn1&labelSelector=a%3Db"
        ),
        recorded=None,
        notes=[],
    )

    assert path["action"] == {"verb": "get", "path": "/version"}
    action = selected["action"]
    assert isinstance(action, dict)
    assert action["fieldSelector"] == [["spec.nodeName", "=", "n1"]]
    assert action["labelSelector"] == [["a", "=", ["b"]]]
