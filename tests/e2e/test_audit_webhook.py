"""The audit webhook beside the real API server's own: one receiver cannot tell them apart."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from proxy.sandbox.api_server import ApiServer, ApiServerOptions
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.proxy_process import ProxyProcess
from tests.support.audit_receiver import AuditReceiver, audit_receiver
from tests.support.certificates import new_certificates
from tests.support.control_plane import fresh_name
from tests.support.event_loops import eventually

pytestmark = pytest.mark.timeout(120)  # it starts an API server of its own


async def calls_of_the_api_server(
    control_plane: ControlPlane, receiver: AuditReceiver, kubeconfig: Path
) -> tuple[dict[str, Any], dict[str, str]]:
    options = ApiServerOptions(
        name=fresh_name("with-webhook"),
        extra_flags=(
            f"--audit-webhook-config-file={kubeconfig}",
            "--audit-webhook-batch-max-wait=1s",
        ),
    )
    (server,) = await asyncio.to_thread(control_plane.start_api_servers, options)
    try:
        await eventually(lambda: receiver.documents, seconds=30)
        return receiver.documents[0], receiver.headers[0]
    finally:
        await asyncio.to_thread(server.stop)


async def calls_of_the_proxy(
    control_plane: ControlPlane, server: ApiServer, receiver: AuditReceiver, kubeconfig: Path
) -> tuple[dict[str, Any], dict[str, str]]:
    webhook = {"kubeconfig": str(kubeconfig), "batchMaxWait": "100ms"}
    proxy = ProxyProcess(control_plane, server, settings={"audit": {"webhook": webhook}})
    await asyncio.to_thread(proxy.__enter__)
    try:
        await eventually(lambda: receiver.documents, seconds=30)
        return receiver.documents[0], receiver.headers[0]
    finally:
        await asyncio.to_thread(proxy.__exit__, None, None, None)


async def test_our_calls_are_like_those_of_the_api_server(
    control_plane: ControlPlane, plain_api_server: ApiServer, tmp_path: Path
) -> None:
    certificates = new_certificates()
    async with audit_receiver(certificates) as theirs, audit_receiver(certificates) as ours:
        ca_file = certificates.write_server_ca(tmp_path)
        kubeconfig = theirs.write_kubeconfig(tmp_path, ca_file, token="a-token")
        native = await calls_of_the_api_server(control_plane, theirs, kubeconfig)
        kubeconfig = ours.write_kubeconfig(tmp_path, ca_file, token="a-token")
        proxied = await calls_of_the_proxy(control_plane, plain_api_server, ours, kubeconfig)

    def envelope(document: dict[str, Any]) -> dict[str, Any]:
        return {**document, "items": ["kind" in item for item in document["items"]][:1]}

    def credential(headers: dict[str, str]) -> tuple[str, str]:
        return headers["Content-Type"], headers["Authorization"]

    assert envelope(proxied[0]) == envelope(native[0])
    assert list(proxied[0]) == list(native[0])
    assert credential(proxied[1]) == credential(native[1])
    assert list(proxied[0]["items"][0])[:6] == list(native[0]["items"][0])[:6]
