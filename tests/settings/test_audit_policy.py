import json
from pathlib import Path

import pytest

from proxy.core.audit.event import Stage
from proxy.core.audit.policy import AuditPolicy, Level
from proxy.core.requestinfo.request_info import parse_request_info
from proxy.core.userinfo import UserInfo, with_authenticated
from proxy.settings.audit_policy import load_audit_policy
from proxy.settings.loader import ConfigError
from tests.support.audit_policy_rows import (
    LONG,
    NOBODY,
    POLICY_WIDE,
    POLICY_WIDE_ROWS,
    ROWS,
    SHORT,
    Row,
    policy_of,
)

HEAD = "apiVersion: audit.k8s.io/v1\nkind: Policy\n"


def load(tmp_path: Path, text: str) -> AuditPolicy:
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    return load_audit_policy(file)


def problems(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    return caught.value.problems


CASES: list[tuple[Row, list[Row], dict[str, object]]] = [(row, ROWS, {}) for row in ROWS]
CASES += [(row, POLICY_WIDE_ROWS, POLICY_WIDE) for row in POLICY_WIDE_ROWS]


@pytest.mark.parametrize(("row", "rows", "wide"), CASES, ids=[row.id for row, _, _ in CASES])
def test_a_policy_records_what_the_native_server_records(
    row: Row, rows: list[Row], wide: dict[str, object], tmp_path: Path
) -> None:
    """Alone and among all others; that the table is right, `tests/e2e` asks the native server."""
    caller = None
    if not row.is_nobody:
        caller = UserInfo(row.user_name, groups=with_authenticated(row.group_names))
    request_info = parse_request_info(row.method.encode(), row.target.encode())

    for some in ([row], rows):
        policy = load(tmp_path, json.dumps(policy_of(some, **wide)))
        audit_config = policy.evaluate(caller, request_info)

        stages = NOBODY if row.is_nobody else LONG if request_info.is_long_running else SHORT
        written = [
            stage
            for stage in stages
            if not audit_config.is_none and audit_config.writes(Stage(stage))
        ]
        assert audit_config.level == row.level
        assert tuple(written) == row.expected_stages


def test_the_default_policy_records_everything_without_bodies() -> None:
    policy = load_audit_policy(None)

    for method, target in ((b"GET", b"/healthz"), (b"POST", b"/api/v1/namespaces/n/secrets")):
        for caller in (None, UserInfo("system:apiserver")):
            audit_config = policy.evaluate(caller, parse_request_info(method, target))
            assert audit_config.level is Level.METADATA
            assert not audit_config.writes_received
            assert audit_config.writes_started
            assert audit_config.writes_complete


def test_the_policy_of_the_handbook_is_one(tmp_path: Path) -> None:
    handbook = Path(__file__).parents[2] / "docs" / "audit.md"
    policy = load(tmp_path, handbook.read_text().partition("```yaml\n")[2].partition("```")[0])
    create_secret = parse_request_info(b"POST", b"/api/v1/namespaces/n/secrets")
    create_pod = parse_request_info(b"POST", b"/api/v1/namespaces/n/pods")

    levels = [
        policy.evaluate(None, request_info).level for request_info in (create_secret, create_pod)
    ]

    assert levels == [Level.METADATA, Level.REQUEST]


def test_every_problem_is_told_with_its_path(tmp_path: Path) -> None:
    text = f"""{HEAD}
omitStages: [Nowhere]
omitManagedFields: "yes"
rules:
- {{level: metadata, usrs: [a]}}
- {{level: None, nonResourceURLs: [version, "/a*b"], resources: [{{group: apps/v1}}]}}
- {{users: [1]}}
- {{level: Request, resources: [{{resourceNames: [x]}}]}}
- {{level: Request, nonResourceURLs: ["/a"], namespaces: [b]}}
"""

    told = "\n".join(problems(tmp_path, text))

    for path in (
        "omitStages.0: ",
        "omitManagedFields: ",
        "rules.0.level: ",
        "rules.0.usrs: unknown key",
        "rules.1.nonResourceURLs.0: non-resource URL rules must begin with a '/' character",
        "rules.1.nonResourceURLs.1: non-resource URL wildcards '*' must be the final character",
        "rules.1.resources.0.group: ",
        "rules.2.level: is required",
        "rules.2.users.0: ",
        "rules.3.resources.0: using resourceNames requires at least one resource",
        "rules.4: rules cannot apply to both regular resources and non-resource URLs",
    ):
        assert path in told


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is not a mapping"),
        (f"{HEAD}rules: []", "rules: a policy without rules would record nothing"),
        (f"{HEAD}rules:", "rules: a policy without rules would record nothing"),
        (HEAD, "rules: is required"),
        ("rules: [{level: None}]", "apiVersion: is required"),
        ("apiVersion: audit.k8s.io/v1beta1\nkind: Policy\nrules: [{level: None}]", "apiVersion: "),
        (f"{HEAD}kind: Policy\nrules: [{{level: None}}]", "twice"),
        (f"{HEAD}rules: [{{level: None, level: Request}}]", "twice"),
    ],
)
def test_what_is_no_policy_is_refused(text: str, problem: str, tmp_path: Path) -> None:
    assert problem in "; ".join(problems(tmp_path, text))


def test_lists_that_are_empty_or_null_match_everything(tmp_path: Path) -> None:
    text = f"""{HEAD}
metadata: {{name: mine}}
omitStages:
rules:
- {{level: Request, users: , verbs: [], resources: null, namespaces: ~, nonResourceURLs: }}
"""

    policy = load(tmp_path, text)

    assert policy.evaluate(None, parse_request_info(b"GET", b"/x")).level is Level.REQUEST


def test_a_policy_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_audit_policy(tmp_path / "absent")
