"""`docs/metrics.md` says the same as a running proxy, and as a join of logs, of all their series.

What each means stands there in the words of its help text.
"""

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import aiohttp
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.parser import text_string_to_metric_families

from proxy.runtime.proxy import Proxy, run_proxy
from proxy.sandbox.processes import LOOPBACK, ReservedPort
from proxy.settings.admin import AdminSettings
from proxy.settings.audit import AuditLogSettings, AuditSettings
from proxy.telemetry.metrics.process import ConfigMetrics
from tests.scenarios.conftest import settings_for
from tests.support.certificates import new_certificates
from tests.support.join_page import join_page
from tests.support.scripted_api_server import scripted_api_server

DOCUMENT = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
OF_A_PROXY, _, OF_A_JOIN = DOCUMENT.partition("\n## Series of a join\n")
ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| (.*?) \| (.+) \|$", re.MULTILINE)

Row = tuple[str, str, str, str]


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[tuple[Proxy, str]]:
    certificates = new_certificates()
    async with scripted_api_server(certificates) as api:
        settings = settings_for(api, certificates, tmp_path)
        with ReservedPort() as port:
            admin = AdminSettings.model_validate({"address": f"{LOOPBACK}:{port.number}"})
            log = AuditLogSettings.model_validate({"path": str(tmp_path / "audit.log")})
            update = {"admin": admin, "audit": AuditSettings(log=log)}
            async with run_proxy(settings.model_copy(update=update)) as proxy:
                ConfigMetrics(proxy.registry)  # as `serve` does, which follows the file
                yield proxy, f"http://{LOOPBACK}:{port.number}/metrics"


def labels(registry: CollectorRegistry) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the labels of every series, used or not."""
    for collector in registry._collector_to_names:
        if isinstance(collector, MetricWrapperBase):
            yield collector._name, tuple(collector._labelnames)
        else:
            for family in collector.collect():
                yield family.name, tuple(vars(family).get("_labelnames", ()))


async def exposed(proxy: Proxy, url: str) -> list[Row]:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        page = await answer.text()
    return rows_of(page, dict(labels(proxy.registry)))


def rows_of(page: str, named: Mapping[str, tuple[str, ...]]) -> list[Row]:
    rows = []
    for family in text_string_to_metric_families(page):
        ending = "_total" if family.type == "counter" else ""
        shown = ", ".join(f"`{name}`" for name in named.get(family.name, ()))
        rows.append((family.name + ending, family.type, shown, family.documentation))
    return sorted(rows)


async def test_the_document_has_every_series_and_no_other(running: tuple[Proxy, str]) -> None:
    rows = await exposed(*running)

    assert sorted(ROW.findall(OF_A_PROXY)) == rows, table(rows)


def table(rows: list[Row]) -> str:
    """Return what the document has to say: write it there."""
    return "\n".join(f"| `{name}` | {kind} | {of} | {text} |" for name, kind, of, text in rows)


def test_and_every_series_of_a_join_apart_from_those(tmp_path: Path) -> None:
    page = join_page(tmp_path)
    named = {
        family.name: tuple(dict.fromkeys(name for one in family.samples for name in one.labels))
        for family in text_string_to_metric_families(page)
    }

    rows = rows_of(page, named)

    assert len(rows) == 3
    assert sorted(ROW.findall(OF_A_JOIN)) == rows, table(rows)
