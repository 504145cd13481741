"""Findings about verbs: unknown impersonation verbs, stars, and legacy next to constrained."""

import pytest

from proxy.core.rbac.lint.finding import Finding, ManifestSource, RuleLocation, Severity
from proxy.core.rbac.lint.verbs import METHODS, REQUEST_VERBS, is_built_in, verb_findings
from proxy.core.rbac.model import Rule

AUTHENTICATION = ("authentication.k8s.io",)
CLUSTER_ROLE: dict[str, object] = {"kind": "ClusterRole", "metadata": {"name": "r"}}
ROLE: dict[str, object] = {"kind": "Role", "metadata": {"name": "r", "namespace": "shop"}}
DEFAULTS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
BUILT_IN: dict[str, object] = {
    "kind": "ClusterRole",
    "metadata": {"name": "cluster-admin", "labels": DEFAULTS},
}


def findings(rule: Rule, content: dict[str, object] = CLUSTER_ROLE) -> list[Finding]:
    source = ManifestSource("f.yaml", 1, content)
    return list(verb_findings(RuleLocation(source, "$.rules[0]", rule)))


def pods(*verbs: str) -> Rule:
    return Rule(verbs, ("",), ("pods",))


def path(*verbs: str) -> Rule:
    return Rule(verbs, paths=("/version",))


def users(*verbs: str) -> Rule:
    return Rule(verbs, AUTHENTICATION, ("users",))


UNKNOWN = [
    pytest.param(
        pods("impersonate-on:user-info:exec"),
        "no request here has the verb 'exec'",
        "impersonate-on:user-info:get and so on",
        id="no request has exec",
    ),
    pytest.param(
        pods("impersonate-on:user-info:head"),
        "no request here has the verb 'head'",
        "impersonate-on:user-info:get and so on",
        id="method on a resource",
    ),
    pytest.param(
        path("impersonate-on:user-info:list"),
        "no request here has the verb 'list'",
        "impersonate-on:user-info:get and so on",
        id="request verb on a path",
    ),
    pytest.param(
        path("impersonate-on:user-info:proxy"),
        "no request here has the verb 'proxy'",
        "impersonate-on:user-info:get and so on",
        id="proxy on a path",
    ),
    pytest.param(
        pods("impersonate-on:user-info:*"),
        "* is a wildcard only as the whole verb",
        "impersonate-on:user-info:get and so on",
        id="star as a part of a verb",
    ),
    pytest.param(
        pods("impersonate-on:userinfo:get"),
        "names no mode",
        "write impersonate-on:user-info:get",
        id="misspelled mode",
    ),
    pytest.param(
        pods("impersonate-on:list"),
        "names no mode",
        "name the mode: impersonate-on:associated-node:list, impersonate-on:arbitrary-node:list, ",
        id="no mode, as in an old text of the KEP",
    ),
    pytest.param(
        users("impersonate:scheduled-node"),
        "no check has the verb impersonate:scheduled-node",
        "write impersonate:associated-node or impersonate:arbitrary-node",
        id="mode of an old text of the KEP",
    ),
    pytest.param(
        users("Impersonate:user-info"),
        "no check has the verb Impersonate:user-info",
        "write impersonate:user-info",
        id="capital letter",
    ),
    pytest.param(
        users("impersonates"),
        "no check has the verb impersonates",
        "write impersonate:",
        id="misspelled legacy verb",
    ),
    pytest.param(
        users("impersonation-of-another-user"),
        "no check has the verb impersonation-of-another-user",
        "write one of impersonate:associated-node, impersonate:arbitrary-node, ",
        id="not similar to any verb",
    ),
]


@pytest.mark.parametrize(("rule", "why", "remedy"), UNKNOWN)
def test_unknown_impersonation_verb_is_an_error(rule: Rule, why: str, remedy: str) -> None:
    (found,) = findings(rule)

    assert (found.code, found.severity, found.path) == (
        "unknown-verb",
        Severity.ERROR,
        "$.rules[0].verbs[0]",
    )
    assert why in found.why
    assert remedy in found.remedy


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(users("impersonate"), id="legacy"),
        pytest.param(users("impersonate:user-info", "impersonate:arbitrary-node"), id="identity"),
        pytest.param(
            pods(*(f"impersonate-on:user-info:{verb}" for verb in REQUEST_VERBS)), id="requests"
        ),
        pytest.param(pods("impersonate-on:user-info:proxy"), id="proxy of an old API server"),
        pytest.param(
            path(*(f"impersonate-on:user-info:{method}" for method in METHODS)), id="methods"
        ),
        pytest.param(pods("get", "use", "escalate"), id="verbs without impersonation"),
        pytest.param(Rule(), id="empty rule"),
    ],
)
def test_known_verbs_have_no_findings(rule: Rule) -> None:
    assert findings(rule) == []


def test_finding_has_the_position_of_its_verb() -> None:
    found = findings(pods("get", "impersonate-on:get", "list", "impersonates"))

    assert [one.path for one in found] == ["$.rules[0].verbs[1]", "$.rules[0].verbs[3]"]


STAR = ("*",)


@pytest.mark.parametrize(
    ("rule", "severity"),
    [
        pytest.param(Rule(STAR, STAR, STAR), Severity.WARNING, id="everything"),
        pytest.param(Rule(STAR, ("",), STAR), Severity.WARNING, id="all of the core group"),
        pytest.param(Rule(STAR, AUTHENTICATION, STAR), Severity.WARNING, id="all identities"),
        pytest.param(users("*"), Severity.WARNING, id="users"),
        pytest.param(Rule(STAR, STAR, ("nodes",)), Severity.WARNING, id="nodes in all groups"),
        pytest.param(
            Rule(STAR, AUTHENTICATION, ("userextras/a.io/b",)), Severity.WARNING, id="extras"
        ),
        pytest.param(Rule(STAR, ("apps",), STAR), Severity.NOTE, id="all of another group"),
        pytest.param(Rule(STAR, ("acme.io",), ("zebras",)), Severity.NOTE, id="other resource"),
        pytest.param(Rule(STAR, ("",), ("nodes",)), Severity.NOTE, id="nodes as a resource"),
        pytest.param(path("*"), Severity.NOTE, id="path"),
    ],
)
def test_star_verb_is_a_warning_on_identities_and_a_note_elsewhere(
    rule: Rule, severity: Severity
) -> None:
    (found,) = findings(rule)

    assert (found.code, found.severity) == ("star-verb", severity)
    opens_identities = severity is Severity.WARNING
    assert ("can impersonate others" in found.why) == opens_identities


def test_star_verb_on_users_in_a_namespaced_role_is_a_note() -> None:
    # Users are cluster-scoped, so a Role never grants them.
    assert [one.severity for one in findings(users("*"), ROLE)] == [Severity.NOTE]
    assert [one.severity for one in findings(users("*"))] == [Severity.WARNING]


def test_star_verb_of_a_built_in_role_is_not_reported() -> None:
    everything = Rule(STAR, STAR, STAR)

    assert findings(everything, BUILT_IN) == []
    assert len(findings(everything)) == 1


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(BUILT_IN, True, id="label of the defaults"),
        pytest.param(CLUSTER_ROLE, False, id="no labels"),
        pytest.param(
            {"metadata": {"labels": {"kubernetes.io/bootstrapping": "other"}}}, False, id="other"
        ),
        pytest.param({"metadata": {"annotations": DEFAULTS}}, False, id="annotation"),
        pytest.param({"metadata": {"labels": "text"}}, False, id="labels that are no mapping"),
        pytest.param({"metadata": "text"}, False, id="metadata that is no mapping"),
        pytest.param({}, False, id="no metadata"),
    ],
)
def test_built_in_role_is_known_by_its_label(content: dict[str, object], *, expected: bool) -> None:
    assert is_built_in(ManifestSource("f.yaml", 1, content)) == expected


@pytest.mark.parametrize(
    ("verbs", "position"),
    [
        pytest.param(("impersonate", "impersonate:user-info"), 0, id="before an identity verb"),
        pytest.param(("impersonate:user-info", "impersonate"), 1, id="after an identity verb"),
        pytest.param(
            ("impersonate-on:user-info:get", "get", "impersonate"), 2, id="after an action verb"
        ),
    ],
)
def test_legacy_verb_next_to_constrained_verbs_is_a_warning(
    verbs: tuple[str, ...], position: int
) -> None:
    found = findings(users(*verbs))

    assert [(one.code, one.severity, one.path) for one in found] == [
        ("legacy-overrules", Severity.WARNING, f"$.rules[0].verbs[{position}]")
    ]


@pytest.mark.parametrize(
    "verbs", [("impersonate",), ("impersonate", "get"), ("impersonate:user-info", "get")]
)
def test_legacy_and_constrained_verbs_alone_are_not_reported(verbs: tuple[str, ...]) -> None:
    assert findings(users(*verbs)) == []
