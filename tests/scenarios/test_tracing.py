"""The headers of a trace pass as they came: we are no part of it unless we are told to be."""

import pytest

from tests.support.http_client import Headers, HttpClient
from tests.support.scripted_api_server import ScriptedApiServer

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
