"""Which changes a running proxy can take: all but those of sockets, and unheard-of ones."""

import pytest

from proxy.settings.loader import RestartRequired, changed_paths, check_reloadable
from tests.settings.test_loader import parse


@pytest.mark.parametrize(
    ("more", "changed"),
    [
        ("", []),
        ("configRefresh: 1s\n", ["configRefresh"]),
        ("log: {level: debug}\n", ["log.level"]),
        ("impersonation: {legacy: deny}\n", ["impersonation.legacy.default"]),
        ("audit: {log: {path: a, maxSize: 1}}\n", ["audit.log.path", "audit.log.maxSize"]),
        ("upstream: {endpoints: ['https://a'], extras: {b: drop}}\n",
         ["upstream.endpoints", "upstream.extras"]),
        ("admin: {kepMetricNames: true}\n", ["admin.kepMetricNames"]),
        ("tracing: {endpoint: 'http://a/v1/traces'}\n", ["tracing.endpoint"]),
    ],
)  # fmt: skip
def test_nearly_everything_changes_while_we_run(more: str, changed: list[str]) -> None:
    assert changed_paths(parse(), parse(more)) == changed
    check_reloadable(parse(), parse(more))
    check_reloadable(parse(more), parse())


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ("  address: 127.0.0.1:1\n", "serving.address"),
        ("admin: {address: 127.0.0.1:1}\n", "admin.address"),
    ],
)
def test_an_address_needs_a_restart(more: str, path: str) -> None:
    for old, new in ((parse(), parse(more)), (parse(more), parse())):
        with pytest.raises(RestartRequired) as refused:
            check_reloadable(old, new)
        assert refused.value.lines == [f"{path}: was changed, which needs a restart"]


def test_the_admin_port_may_have_another_certificate_but_not_begin_to_have_one() -> None:
    plain, one, two = (
        parse(f"admin: {{{more}}}\n")
        for more in ("", "certificateFile: a, keyFile: b", "certificateFile: c, keyFile: d")
    )

    check_reloadable(one, two)
    for old, new in ((plain, one), (one, plain)):
        with pytest.raises(RestartRequired) as refused:
            check_reloadable(old, new)
        assert refused.value.paths == ["admin.certificateFile", "admin.keyFile"]
