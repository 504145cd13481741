"""One stage for all tests of this package."""

from collections.abc import Iterator

import pytest

from proxy.sandbox.programs.binaries import Binaries
from tests.e2e.backends.stage import Stage, running_stage
from tests.support.build_once import report_missing
from tests.support.network_namespace import NamespaceUnavailable, NetworkNamespace


@pytest.fixture(scope="package")
def backends(binaries: Binaries) -> Iterator[Stage]:
    """The stage; without a network namespace tests are skipped, and fail where CI=true."""
    try:
        namespace = NetworkNamespace().__enter__()
    except NamespaceUnavailable as error:
        report_missing(str(error))
    with namespace, running_stage(binaries, namespace) as stage:
        yield stage
