"""A listener and a client of it, on both event loops."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest

from tests.serving.listening import Place, listening
from tests.support.certificates import Certificates, new_certificates
from tests.support.event_loops import BOTH_LOOPS
from tests.support.http_client import HttpClient, connected


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return BOTH_LOOPS


@pytest.fixture(scope="package")
def certificates() -> Certificates:
    return new_certificates()


@pytest.fixture
async def place(certificates: Certificates) -> AsyncIterator[Place]:
    async with listening(certificates) as place:
        yield place


@pytest.fixture
async def client(place: Place, certificates: Certificates) -> AsyncIterator[HttpClient]:
    """A client with a certificate."""
    async with connected(place.address, certificates.client_context("alice")) as client:
        yield client
