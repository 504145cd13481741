"""The headers of a trace pass as they came: we are no part of it unless we are told to be."""

import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from proxy.runtime.proxy import run_proxy
from proxy.settings.model import Settings
from proxy.settings.telemetry import TracingSettings
from proxy.telemetry.tracing import TracingError, start_tracing
from tests.scenarios.conftest import settings_document, wait_until_it_admits
from tests.support.certificates import Certificates
from tests.support.http_client import Headers, HttpClient, Response, connected
from tests.support.scripted_api_server import ScriptedApiServer, SeenRequest

TRACEPARENT = ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
NAMES = {"traceparent", "tracestate", "baggage"}


@pytest.mark.parametrize(
    "sent",
    [
        [TRACEPARENT],
        [TRACEPARENT, ("tracestate", "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7")],
        [("TraceParent", TRACEPARENT[1]), ("Tracestate", "a=1"), ("TRACESTATE", "b=2")],
        [TRACEPARENT, TRACEPARENT],
        [("traceparent", "cc-not-of-this-version"), ("baggage", "k=v;p=1, k2=v2")],
        [("traceparent", "")],
        [],
    ],
    ids=["parent", "state", "odd case", "two parents", "unknown", "empty", "none"],
)
@pytest.mark.parametrize("also", [[], [("Impersonate-User", "carol")]], ids=["self", "as carol"])
async def test_a_trace_is_passed_on_byte_for_byte(
    api: ScriptedApiServer, client: HttpClient, sent: Headers, also: Headers
) -> None:
    for _ in range(2):  # the second may be served from memory
        await client.request(headers=[*sent, *also])

    for seen in api.requests:
        assert [header for header in seen.headers if header[0].lower() in NAMES] == sent
    assert len(api.requests) == 2


# --- with a collector ----------------------------------------------------------------------

TRACE, SPAN = TRACEPARENT[1].split("-")[1:3]


class Collector:
    """Takes spans as a collector does."""

    def __init__(self) -> None:
        self.spans: list[Span] = []

    async def take(self, request: web.BaseRequest) -> web.Response:
        batch = ExportTraceServiceRequest.FromString(await request.read())
        for resource in batch.resource_spans:
            for scope in resource.scope_spans:
                self.spans += scope.spans
        return web.Response()

    def named(self, name: str) -> Span:
        (found,) = (span for span in self.spans if span.name == name)
        return found


@pytest.fixture
async def collector() -> AsyncIterator[tuple[Collector, str]]:
    collector = Collector()
    async with RawTestServer(collector.take) as server:
        yield collector, str(server.make_url("/v1/traces"))


@dataclass(frozen=True)
class Story:
    """A few requests: what was told the collector, and what the API server saw."""

    collector: Collector
    seen: list[SeenRequest]
    answer: Response


@pytest.fixture
async def story(
    api: ScriptedApiServer,
    certificates: Certificates,
    tmp_path: Path,
    context_of: Callable[[str | None], ssl.SSLContext],
    collector: tuple[Collector, str],
) -> Story:
    document = settings_document(api, certificates, tmp_path)
    document["tracing"] = {"endpoint": collector[1]}
    sent = [TRACEPARENT, ("tracestate", "a=1"), ("tracestate", "b=2"), ("baggage", "k=v")]
    document["tracing"]["trustedGroups"] = ["tracers"]
    async with run_proxy(Settings.model_validate(document)) as proxy:
        await wait_until_it_admits(proxy.address, context_of("early"))
        api.requests.clear()
        tracer = certificates.client_context("alice", group="tracers")
        async with connected(proxy.address, tracer) as client:
            answer = await client.request(headers=[*sent, ("Impersonate-User", "carol")])
            api.access_status = {"allowed": False}
            await client.request("PUT", headers=[*sent, ("Impersonate-User", "dave")])
            # Nobody asked for a trace of these.
            await client.request()
            await client.request(headers=[TRACEPARENT, TRACEPARENT])
    return Story(collector[0], api.requests, answer)


async def test_our_spans_are_below_the_clients(story: Story) -> None:
    told = story.collector
    request, upstream, denied = (
        told.named(name) for name in ("list pods", "upstream", "update pods")
    )

    assert {span.trace_id.hex() for span in told.spans} == {TRACE}
    assert request.parent_span_id.hex() == denied.parent_span_id.hex() == SPAN
    assert upstream.parent_span_id == request.span_id
    attributes = {one.key: one.value for one in request.attributes}
    assert attributes["http.response.status_code"].int_value == 200
    assert attributes["understudy.mode"].string_value == "user-info"
    assert [attributes["understudy.audit_id"].string_value] == story.answer.values("audit-id")
    stages = [span for span in told.spans if span.name in {"authentication", "decision"}]
    assert {span.parent_span_id for span in stages} == {request.span_id, denied.span_id}
    assert len(told.spans) == 7
    for span in told.spans:
        assert request.start_time_unix_nano <= span.start_time_unix_nano
        assert span.start_time_unix_nano <= span.end_time_unix_nano


async def test_the_api_servers_are_below_ours(story: Story) -> None:
    first, *others = story.seen
    upstream = story.collector.named("upstream").span_id.hex()

    assert [name for name, _ in first.headers].count("traceparent") == 1
    (parent,) = first.values("traceparent")
    assert parent.split("-")[1:3] == [TRACE, upstream]
    assert first.values("tracestate") == ["a=1,b=2"]
    assert first.values("baggage") == ["k=v"]
    # What nobody wants to be traced says so to the API server.
    assert len(others) == 2
    for other in others:
        (parent,) = other.values("traceparent")
        assert int(parent.split("-")[3], 16) & 1 == 0
        assert TRACE not in parent


async def test_a_collector_that_is_not_there_costs_no_request_its_answer(
    api: ScriptedApiServer,
    certificates: Certificates,
    tmp_path: Path,
    context_of: Callable[[str | None], ssl.SSLContext],
) -> None:
    document = settings_document(api, certificates, tmp_path)
    document["tracing"] = {
        "endpoint": "http://127.0.0.1:1/v1/traces",
        "samplingRatePerMillion": 1_000_000,
    }
    async with run_proxy(Settings.model_validate(document)) as proxy:
        await wait_until_it_admits(proxy.address, context_of("early"))
        async with connected(proxy.address, context_of("alice")) as client:
            assert (await client.request()).status == 200


async def test_spans_come_and_go_with_the_config_file(
    api: ScriptedApiServer,
    certificates: Certificates,
    tmp_path: Path,
    context_of: Callable[[str | None], ssl.SSLContext],
    collector: tuple[Collector, str],
) -> None:
    document = settings_document(api, certificates, tmp_path)
    without = Settings.model_validate(document)
    tracing = {"endpoint": collector[1], "trustedGroups": ["system:authenticated"]}
    with_spans = Settings.model_validate({**document, "tracing": tracing})
    async with run_proxy(without) as proxy:
        await wait_until_it_admits(proxy.address, context_of("early"))
        api.requests.clear()
        async with connected(proxy.address, context_of("alice")) as client:
            for settings in (without, with_spans, without):
                await proxy.reload(settings)
                for _ in range(2):
                    assert (await client.request(headers=[TRACEPARENT])).status == 200

    parents = [seen.values("traceparent")[0] for seen in api.requests]
    assert [parent == TRACEPARENT[1] for parent in parents] == [True] * 2 + [False] * 2 + [True] * 2
    assert [span.name for span in collector[0].spans].count("upstream") == 2


async def test_what_a_collector_is_told_of_one_request_is_bounded(
    api: ScriptedApiServer,
    certificates: Certificates,
    tmp_path: Path,
    context_of: Callable[[str | None], ssl.SSLContext],
    collector: tuple[Collector, str],
) -> None:
    document = settings_document(api, certificates, tmp_path)
    trusted = ["system:authenticated"]
    document["tracing"] = {"endpoint": collector[1], "trustedGroups": trusted}
    state = ("tracestate", ",".join(f"k{number}={'v' * 250}" for number in range(32)))
    async with run_proxy(Settings.model_validate(document)) as proxy:
        await wait_until_it_admits(proxy.address, context_of("early"))
        api.requests.clear()
        async with connected(proxy.address, context_of("alice")) as client:
            target = f"/apis/a/v1/{'r' * 60_000}"
            assert (await client.request("GET", target, headers=[TRACEPARENT, state])).status == 200
            long = ("traceparent", TRACEPARENT[1] + "-" + "0" * 100_000)
            assert (await client.request(headers=[long])).status == 200

    spans = collector[0].spans
    assert {"authentication", "upstream", f"list {'r' * 251}...TRUNCATED"} <= {
        span.name for span in spans
    }
    assert sum(len(span.SerializeToString()) for span in spans) < 2048
    # What is too long is left out, and the trace goes on without it.
    assert api.requests[0].values("tracestate") == []
    assert TRACE in api.requests[0].values("traceparent")[0]
    assert TRACE not in api.requests[1].values("traceparent")[0]


def test_nothing_is_imported_unless_spans_are_wanted() -> None:
    script = (
        "import sys, proxy.runtime.proxy; "
        "sys.exit(any('opentelemetry' in one for one in sys.modules))"
    )

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_without_the_packages_the_config_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)

    with pytest.raises(TracingError, match=r"kube-understudy\[otel\]"):
        start_tracing("http://127.0.0.1:1/v1/traces", sampling_rate_per_million=0)


@pytest.mark.parametrize("endpoint", ["collector:4318", "ftp://a/b", "http://u:secret@a/b", ""])
def test_a_collector_is_named_by_its_url_and_nothing_secret(endpoint: str) -> None:
    with pytest.raises(ValueError, match="must be the URL of a collector"):
        TracingSettings.model_validate({"endpoint": endpoint})
