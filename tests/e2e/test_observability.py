"""What operators are given to look at a running proxy: every query finds what it asks for.

Alerts, dashboard and documents refer only to series, labels and values that a proxy shows, or that
a join of logs writes; the documents' queries of audit logs say what happened.
"""

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bench.dashboard.programs import Expression, Matcher, Window, evaluate
from bench.dashboard.recording import Recording
from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.objects import token_for
from tests.e2e.kep.cast import Cast
from tests.e2e.kep.understudy import Understudy, complete_event, running_understudy
from tests.support.impersonation import (
    Caller,
    Rights,
    as_user,
    may,
    may_be,
    may_do,
    may_impersonate,
    poll,
)
from tests.support.join_page import join_page
from tests.support.kubectl import Kubectl
from tests.support.observability import TARGET_LABELS, as_prometheus_reads, expressions

pytestmark = pytest.mark.timeout(1200)  # the first one may have to build Prometheus' parser

ROOT = Path(__file__).parents[2]
OPERATIONS = (ROOT / "docs" / "impersonation-usage.md").read_text()
METRICS = (ROOT / "docs" / "metrics.md").read_text()
ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| ([^|]*) \| (.*) \|$", re.MULTILINE)
SUFFIXES = {"histogram": ("_bucket", "_count", "_sum"), "counter": ("",), "gauge": ("",)}
PODS = "/api/v1/pods"


@dataclass(frozen=True, slots=True)
class Shown:
    """What a series may look like: its labels, and every text that could be a value of theirs."""

    labels: frozenset[str]
    words: str

    def has(self, matcher: Matcher) -> bool:
        """Tell whether a matcher asks for a label that is there, and a value it could have."""
        if matcher.name in TARGET_LABELS:
            return True
        return matcher.name in self.labels and all(
            re.search(rf"(?<![\w-]){re.escape(value)}(?![\w-])", self.words) is not None
            for value in literals(matcher.value)
        )


def literals(value: str) -> list[str]:
    """Return the alternatives of a pattern that are plain texts."""
    return [text for text in value.split("|") if re.fullmatch(r"[\w-]+", text)]


def shown_by(page: str) -> dict[str, Shown]:
    """Return every series of a page by its name, those of histograms by each of theirs.

    Values that nothing has counted yet are known from the help text, where closed sets are written.
    """
    documented = {name: (labels, text) for name, _, labels, text in ROW.findall(METRICS)}
    found = {}
    for family in text_string_to_metric_families(page):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels, text = documented.get(name, ("", ""))
        samples = " ".join(" ".join(sample.labels.values()) for sample in family.samples)
        names = {label for sample in family.samples for label in sample.labels}
        names |= set(re.findall(r"`(\w+)`", labels)) | {"le"}
        one = Shown(frozenset(names), f"{family.documentation} {samples} {text} {value_table()}")
        for suffix in SUFFIXES[family.type]:
            found[f"{name}{suffix}"] = one
    return found


def value_table() -> str:
    """Return the part of the document that lists the values of labels."""
    return METRICS.partition("## Values of labels")[2].partition("## ")[0]


def missing(expression: Expression, shown: Mapping[str, Shown]) -> list[str]:
    """Return what an expression refers to and a proxy does not show."""
    wrong = []
    for selector in expression.selectors:
        (named,) = [matcher for matcher in selector if matcher.name == "__name__"]
        pattern = re.escape(named.value) if named.op == "=" else named.value
        meant = [one for name, one in shown.items() if re.fullmatch(pattern, name)]
        if not meant:
            wrong.append(f"no series {named.value}")
        rest = [matcher for matcher in selector if matcher is not named]
        wrong += [
            f"no {matcher.name}{matcher.op}{matcher.value} at {named.value}"
            for matcher in rest
            if meant and not any(one.has(matcher) for one in meant)
        ]
    known = {label for one in shown.values() for label in one.labels} | TARGET_LABELS
    return wrong + [f"no label {name}" for name in expression.grouping if name not in known]


@dataclass(frozen=True, slots=True)
class Past:
    """What has happened at a proxy, and who did it."""

    understudy: Understudy
    deputy: Caller
    former: Caller
    stranger: Caller
    target: Caller


@pytest.fixture(scope="module")
def past(
    control_plane: ControlPlane,
    plain_api_server: ApiServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Past]:
    """One of each: as oneself, constrained, legacy, denied; by certificate and by token."""
    cast, rights = Cast(control_plane, plain_api_server.admin), Rights(plain_api_server)
    deputy, former, stranger, target = (
        cast.user(name) for name in ("deputy", "former", "stranger", "target")
    )
    robot = cast.service_account()
    rights.grant(target, may("list"))
    rights.grant(deputy, may_be("user-info", "users"), may_do("user-info", "list"))
    rights.grant(former, may_impersonate("users"))
    directory = tmp_path_factory.mktemp("observed")
    with running_understudy(control_plane, plain_api_server, directory) as understudy:
        for caller in (deputy, former, stranger):
            client = understudy.client(caller.credential)
            response = client.request("GET", PODS, headers=as_user(target.name))
            complete_event(understudy.audit_log, response.header("Audit-Id") or "")
        response = understudy.client(robot.credential).request("GET", "/version")
        complete_event(understudy.audit_log, response.header("Audit-Id") or "")
        yield Past(understudy, deputy, former, stranger, target)


def test_every_query_refers_to_what_a_proxy_or_a_join_shows(past: Past, tmp_path: Path) -> None:
    shown = shown_by(past.understudy.metrics()) | shown_by(join_page(tmp_path))
    names, texts = zip(*expressions(), strict=True)

    wrong = {
        f"{name}: {fault}"
        for name, expression in zip(names, as_prometheus_reads(texts), strict=True)
        for fault in missing(expression, shown)
    }

    assert len(shown) > 60
    assert wrong == set()


def test_every_query_can_be_answered(past: Past) -> None:
    """One that is well written can still add up what must not be: that shows on real series."""
    with Recording({"a": past.understudy.metrics_url, "b": past.understudy.metrics_url}) as made:
        poll(lambda: any(len(one.samples) > 2 for one in made.series), "nothing is recorded")
    moments = [at for one in made.series for at, _ in one.samples]
    window = Window(min(moments), max(moments), 1.0)

    answers = evaluate(window, made.series, [text for _, text in expressions()])

    assert sum(bool(series) for series in answers) > len(answers) / 2


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("sum(understudy_request_total)", "no series understudy_request_total"),
        (
            'understudy_request_errors_total{cause="x"}',
            "no cause=x at understudy_request_errors_total",
        ),
        (
            'understudy_request_errors_total{reason="internals"}',
            "no reason=internals at understudy_request_errors_total",
        ),
        ("sum by (user) (understudy_request_errors_total)", "no label user"),
        (
            "rate(understudy_event_loop_lag_seconds[5m])",
            "no series understudy_event_loop_lag_seconds",
        ),
    ],
    ids=["name", "label", "value", "grouping", "histogram without a suffix"],
)
def test_a_query_about_nothing_is_noticed(text: str, fault: str, past: Past) -> None:
    (expression,) = as_prometheus_reads([text])

    assert missing(expression, shown_by(past.understudy.metrics())) == [fault]


def commands(beginning: str) -> list[str]:
    """Return the shell commands of the document that begin so, in order."""
    blocks = re.findall(r"^```sh\n(.*?)^```", OPERATIONS, re.MULTILINE | re.DOTALL)
    return [block for block in blocks if block.startswith(beginning)]


def shell(command: str, directory: Path, path: str = "") -> list[list[str]]:
    """Run a command where the logs are, and return its lines in words."""
    if shutil.which("jq") is None:
        pytest.skip("there is no jq")
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=directory,
        env={"PATH": f"{path}/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    return [line.split() for line in done.stdout.splitlines()]


def test_the_audit_log_tells_who_acts_as_whom_who_was_refused_and_who_is_legacy(past: Past) -> None:
    directory = past.understudy.audit_log.parent
    users, refused, legacy, _ = commands("jq")

    assert sorted(shell(users, directory)) == [
        ["1", past.deputy.name, "impersonate:user-info", past.target.name],
        ["1", past.former.name, "impersonate", past.target.name],
    ]
    assert shell(refused, directory) == [
        ["1", past.stranger.name, "impersonate-on:user-info:list", "pods"]
    ]
    assert shell(legacy, directory) == [["1", past.former.name]]


def test_the_clusters_log_tells_who_uses_our_credential_past_us(
    past: Past, plain_api_server: ApiServer, kubectl: Kubectl, tmp_path: Path
) -> None:
    *_, past_us = commands("jq")
    done = kubectl.run("apply", "-k", str(ROOT / "manifests" / "base"))
    assert done.returncode == 0, done.stderr
    token = token_for(plain_api_server.admin, "understudy", "understudy-forwarder")
    thief = plain_api_server.client(token)

    as_somebody = thief.request("GET", PODS, headers=as_user(past.target.name))
    alone = thief.request("GET", "/api/v1/namespaces/default/secrets")

    for response in (as_somebody, alone):
        complete_event(plain_api_server.audit_log, response.header("Audit-Id") or "")
    ids = [response.header("Audit-Id") or "" for response in (as_somebody, alone)]
    lines = plain_api_server.audit_log.read_text().splitlines()
    log = [line for line in lines if any(audit_id in line for audit_id in ids)]
    (tmp_path / "cluster.log").write_text("\n".join([*log, ""]))
    found = shell(past_us, tmp_path)
    assert len(log) > len(found) == 1
    assert "/api/v1/namespaces/default/secrets" in found[0][0]


@pytest.fixture(scope="module")
def kubectl(control_plane: ControlPlane, plain_api_server: ApiServer) -> Kubectl:
    kubeconfig = plain_api_server.kubeconfig_for(control_plane.admin, name="observed")
    return Kubectl(control_plane.binaries.kubectl, kubeconfig)


def test_rbac_tells_who_could_be_legacy(
    past: Past, admin: ApiClient, kubectl: Kubectl, tmp_path: Path
) -> None:
    (roles,) = commands("kubectl")
    program = tmp_path / "kubectl"
    options = f"--kubeconfig={kubectl.kubeconfig} --cache-dir={tmp_path}"
    program.write_text(f'#!/bin/sh\nexec {kubectl.program} {options} "$@"\n')
    program.chmod(0o755)
    granted = {
        binding["roleRef"]["name"]: binding.get("subjects", [{}])[0].get("name")
        for binding in admin.call("GET", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings")[
            "items"
        ]
    }

    found = [line[2] for line in shell(roles, tmp_path, path=f"{tmp_path}:")]

    assert "cluster-admin" in found
    holders = {granted.get(name) for name in found}
    assert past.former.name in holders
    assert past.deputy.name not in holders
