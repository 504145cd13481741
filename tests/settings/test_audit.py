from pathlib import Path

from proxy.settings.audit import AuditSettings
from tests.settings.test_loader import parse, problems


def test_nothing_is_audited_unless_it_is_said_where_to() -> None:
    audit = parse().audit

    assert audit == AuditSettings()
    assert (audit.log.path, audit.webhook.kubeconfig) == (None, None)
    assert (audit.log.mode, audit.webhook.mode) == ("blocking", "batch")


def test_the_file_is_beside_the_config_file_or_standard_output() -> None:
    assert parse("audit: {log: {path: audit.log}}").audit.log.path == Path(
        "/etc/understudy/audit.log"
    )
    assert parse('audit: {log: {path: "-"}}').audit.log.path == Path("-")


def test_every_mistake_is_told() -> None:
    found = problems(
        """\
audit:
  log: {path: 7, mode: strict, maxSize: -1, bufferSize: 0, compress: "yes"}
  webhook: {kubeconfig: "", batchMaxSize: 0, throttleQPS: 0, initialBackoff: 0s, url: here}
"""
    )

    assert [problem.partition(": ")[0] for problem in found] == [
        "audit.log.path",
        "audit.log.mode",
        "audit.log.bufferSize",
        "audit.log.maxSize",
        "audit.log.compress",
        "audit.webhook.kubeconfig",
        "audit.webhook.batchMaxSize",
        "audit.webhook.throttleQPS",
        "audit.webhook.initialBackoff",
        "audit.webhook.url",
    ]
