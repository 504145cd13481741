"""Front proxies and anonymous callers before a scripted API server: what it gets to see."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from proxy.core.errors import OperatorError
from proxy.runtime.proxy import Proxy, run_proxy
from proxy.settings.model import Settings
from tests.scenarios.conftest import settings_document, wait_until_it_admits
from tests.support.certificates import Certificates
from tests.support.http_client import connected
from tests.support.scripted_api_server import ScriptedApiServer, SeenRequest

NAMES = {
    "usernameHeaders": ["X-Acme-User"],
    "uidHeaders": ["X-Acme-Id"],
    "groupHeaders": ["X-Acme-Teams"],
    "extraHeaderPrefixes": ["X-Acme-More-"],
}
WORDS = [
    ("X-Acme-User", "carol"),
    ("X-Acme-Id", "7"),
    ("X-Acme-Teams", "a"),
    ("X-Acme-Teams", "b"),
    ("X-Acme-More-Scope", "all"),
]
LOOK_ALIKES = [
    ("x_acme_user", "eve"),
    ("X_Acme-Teams", "eve"),
    ("X_ACME_MORE_Scope", "eve"),
    ("X-Remote-User", "eve"),
    ("X_Remote_Extra-Scope", "eve"),
]
HARMLESS = ("X-Acme", "kept")


@pytest.fixture(scope="module")
def front_proxies() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def document(
    api: ScriptedApiServer, certificates: Certificates, front_proxies: trustme.CA, tmp_path: Path
) -> dict[str, Any]:
    document = settings_document(api, certificates, tmp_path, serving={"certificateRefresh": "1h"})
    ca_file = tmp_path / "front-proxy-ca.crt"
    ca_file.write_bytes(front_proxies.cert_pem.bytes())
    document["authentication"]["frontProxy"] = {
        "caFile": str(ca_file),
        "allowedNames": ["front"],
        **NAMES,
    }
    return document


@pytest.fixture
async def running(document: dict[str, Any], certificates: Certificates) -> AsyncIterator[Proxy]:
    async with run_proxy(Settings.model_validate(document)) as proxy:
        await wait_until_it_admits(proxy.address, certificates.client_context("early"))
        yield proxy


def front_context(certificates: Certificates, front_proxies: trustme.CA) -> ssl.SSLContext:
    context = certificates.client_context()
    leaf = front_proxies.issue_cert("front.test", common_name="front")
    leaf.configure_cert(context)
    return context


def told(request: SeenRequest) -> dict[str, list[str]]:
    names = {name.lower() for name, _ in request.headers}
    return {
        name: request.values(name)
        for name in names
        if name.startswith(("impersonate", "x-acme", "x-remote", "x_"))
    }


async def test_a_front_proxy_s_word_becomes_the_identity_and_does_not_cross(
    running: Proxy, api: ScriptedApiServer, certificates: Certificates, front_proxies: trustme.CA
) -> None:
    context = front_context(certificates, front_proxies)
    async with connected(running.address, context) as client:
        answer = await client.request(headers=[*WORDS, *LOOK_ALIKES, HARMLESS])

    assert answer.status == 200
    assert told(api.requests[-1]) == {
        "impersonate-user": ["carol"],
        "impersonate-uid": ["7"],
        "impersonate-group": ["a", "b", "system:authenticated"],
        "impersonate-extra-scope": ["all"],
        "x-acme": ["kept"],
    }


async def test_from_anybody_else_such_headers_say_nothing_and_do_not_cross(
    running: Proxy, api: ScriptedApiServer, certificates: Certificates
) -> None:
    context = certificates.client_context("alice", group="users")
    async with connected(running.address, context) as client:
        answer = await client.request(headers=[*WORDS, *LOOK_ALIKES, HARMLESS])

    assert answer.status == 200
    seen = told(api.requests[-1])
    assert seen.pop("impersonate-extra-authentication.kubernetes.io%2fcredential-id")
    assert seen == {
        "impersonate-user": ["alice"],
        "impersonate-group": ["users", "system:authenticated"],
        "x-acme": ["kept"],
    }


async def test_a_reload_changes_whose_word_counts(
    running: Proxy,
    document: dict[str, Any],
    api: ScriptedApiServer,
    certificates: Certificates,
    front_proxies: trustme.CA,
) -> None:
    context = front_context(certificates, front_proxies)
    async with connected(running.address, context) as client:
        assert (await client.request(headers=WORDS)).status == 200
        document["authentication"]["frontProxy"]["allowedNames"] = ["another"]
        await reloaded(running, document)
        assert (await client.request(headers=WORDS)).status == 401

        document["authentication"]["frontProxy"]["allowedNames"] = []
        document["authentication"]["frontProxy"]["usernameHeaders"] = ["X-Who"]
        await reloaded(running, document)
        assert (await client.request(headers=WORDS)).status == 401
        assert (await client.request(headers=[("X-Who", "dave"), HARMLESS])).status == 200

    assert told(api.requests[-1])["impersonate-user"] == ["dave"]
    assert api.requests[-1].values("X-Who") == []


async def reloaded(running: Proxy, document: dict[str, Any]) -> None:
    before = running._trust.trust
    await running.reload(Settings.model_validate(document))
    assert running._trust.trust is not before


async def test_a_reload_that_cannot_be_used_leaves_the_old_names(
    running: Proxy,
    document: dict[str, Any],
    certificates: Certificates,
    front_proxies: trustme.CA,
) -> None:
    document["authentication"]["frontProxy"]["caFile"] = "/nowhere/ca.crt"
    with pytest.raises(OperatorError, match="cannot read /nowhere"):
        await running.reload(Settings.model_validate(document))

    async with connected(running.address, front_context(certificates, front_proxies)) as client:
        assert (await client.request(headers=WORDS)).status == 200
    registry = running.registry
    name = "understudy_client_ca_reloads_total"
    assert registry.get_sample_value(name, {"outcome": "used"}) == 1.0


async def test_anonymous_callers_are_served_only_where_that_is_said(
    running: Proxy, document: dict[str, Any], api: ScriptedApiServer, certificates: Certificates
) -> None:
    async with connected(running.address, certificates.client_context()) as client:
        assert (await client.request(target="/livez")).status == 401
        document["authentication"]["anonymous"] = {"enabled": True, "paths": ["/livez"]}
        await running.reload(Settings.model_validate(document))

        assert (await client.request(target="/livez?verbose")).status == 200
        assert told(api.requests[-1]) == {
            "impersonate-user": ["system:anonymous"],
            "impersonate-group": ["system:unauthenticated"],
        }
        assert (await client.request(target="/livez/ping")).status == 401
        assert (await client.request(target="/livez", headers=BAD_TOKEN)).status == 401


BAD_TOKEN = [("Authorization", "Bearer nobodys")]


async def test_anonymous_callers_impersonate_only_as_anybody_may(
    running: Proxy, document: dict[str, Any], api: ScriptedApiServer, certificates: Certificates
) -> None:
    document["authentication"]["anonymous"] = {"enabled": True}
    await running.reload(Settings.model_validate(document))
    api.access_status = {"allowed": False}
    async with connected(running.address, certificates.client_context()) as client:
        api.requests.clear()
        answer = await client.request(headers=[("Impersonate-User", "alice")])

    assert answer.status == 403
    assert api.requests == []
    assert {review["user"] for review in api.reviewed_access} == {"system:anonymous"}


async def test_a_file_that_is_not_there_stops_the_start(document: dict[str, Any]) -> None:
    document["authentication"]["frontProxy"]["caFile"] = "/nowhere/ca.crt"

    with pytest.raises(Exception, match="cannot read /nowhere"):
        async with asyncio.timeout(10), run_proxy(Settings.model_validate(document)):
            pass
