"""A reload replaces the rules whole, whenever it comes."""

import asyncio
from pathlib import Path

from proxy.app import running_proxy
from tests.scenarios.conftest import settings_for, wait_until_it_admits
from tests.support.certificates import Certificates
from tests.support.http_client import connected
from tests.support.scripted_api_server import ScriptedApiServer


async def test_a_reload_before_we_know_who_we_are_is_not_undone_by_learning_it(
    api: ScriptedApiServer, certificates: Certificates, tmp_path: Path
) -> None:
    protecting = settings_for(api, certificates, tmp_path)
    emptied = protecting.impersonation.model_copy(update={"protected_groups": ()})
    trusting = protecting.model_copy(update={"impersonation": emptied})
    headers = [("Impersonate-User", "bob"), ("Impersonate-Group", "system:masters")]
    api.review_gate.clear()

    async with running_proxy(protecting) as proxy:
        async with asyncio.timeout(5):
            while not api.under_review:  # noqa: ASYNC110 - only what it is asked tells
                await asyncio.sleep(0.01)
        await proxy.reload(trusting)
        api.review_gate.set()
        context = certificates.client_context("alice")
        await wait_until_it_admits(proxy.address, context)
        async with connected(proxy.address, context) as client:
            answer = await client.request(headers=headers)

    assert answer.status == 200
