"""Guards for all tests, and the real control plane for those that need one.

A test that takes `control_plane`, `native_api_server` or `plain_api_server`, directly or through
another fixture, carries the mark `e2e` by that alone: `pytest -m 'not e2e'` needs no programs.
"""

import inspect
import signal
import time
from collections.abc import Iterator

import pytest
from blockbuster import blockbuster_ctx

from proxy.sandbox.api_server import ApiServer, ApiServerOptions
from proxy.sandbox.binaries import Binaries, find_binaries
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.errors import SandboxError
from tests.support.build_once import report_missing
from tests.support.control_plane import TOKEN_USERS
from tests.support.ran import FAILED, PASSED
from tests.support.sizes import IS_SOAKING, SOAK_SECONDS

FOUND = pytest.StashKey[Binaries | SandboxError]()
START_SECONDS = pytest.StashKey[float]()
REAL_SERVERS = {"binaries", "control_plane"}


@pytest.fixture(autouse=True)
def event_loop_guard(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail an asynchronous test in which our own code blocks the event loop."""
    if not inspect.iscoroutinefunction(getattr(request, "function", None)):
        yield
        return
    # The loop apart runs in a thread and is there to be blocked.
    with blockbuster_ctx("proxy", excluded_modules=["proxy.upstream.loop_apart"]):
        yield


@pytest.fixture(scope="session")
def binaries(pytestconfig: pytest.Config) -> Binaries:
    """The control plane's programs; without them the test is skipped, and fails where CI=true."""
    found = pytestconfig.stash[FOUND]
    if isinstance(found, SandboxError):
        report_missing(str(found))
    return found


@pytest.fixture(scope="session")
def control_plane(binaries: Binaries) -> Iterator[ControlPlane]:
    """One etcd for the whole run; start more API servers on it as a test needs them."""
    with ControlPlane(binaries, token_users=TOKEN_USERS) as started:
        yield started


@pytest.fixture(scope="session")
def api_servers(
    control_plane: ControlPlane, pytestconfig: pytest.Config
) -> tuple[ApiServer, ApiServer]:
    """The native server and the plain one, started at the same time on the same objects."""
    started = time.monotonic()
    native, plain = control_plane.start_api_servers(
        ApiServerOptions(name="native", constrained_impersonation=True),
        ApiServerOptions(name="plain", constrained_impersonation=False),
    )
    pytestconfig.stash[START_SECONDS] = time.monotonic() - started
    return native, plain


@pytest.fixture(scope="session")
def native_api_server(api_servers: tuple[ApiServer, ApiServer]) -> ApiServer:
    """The reference: constrained impersonation on."""
    return api_servers[0]


@pytest.fixture(scope="session")
def plain_api_server(api_servers: tuple[ApiServer, ApiServer]) -> ApiServer:
    """A cluster without the feature; it shares every object with the native server."""
    return api_servers[1]


def pytest_configure() -> None:
    # A run in the background inherits ignored interrupts and hands them on to the programs it
    # starts, which then could not be interrupted by the tests that do so.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # before `-m` selects by mark
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if REAL_SERVERS.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.e2e)
        if IS_SOAKING and item.get_closest_marker("soak"):
            item.add_marker(pytest.mark.timeout(SOAK_SECONDS), append=False)
    # What looks back at the run comes last.
    items.sort(key=lambda item: item.get_closest_marker("last") is not None)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    test = report.nodeid.partition("[")[0]
    if report.failed:
        FAILED.add(test)
    elif report.when == "call" and report.passed:
        PASSED.add(test)


@pytest.hookimpl(tryfirst=True)  # before the terminal asks for lines about the outcome
def pytest_collection_finish(session: pytest.Session) -> None:
    """Find or build the programs before the first test: a build outlasts any test's timeout."""
    config = session.config
    if config.option.collectonly or not any(
        item.get_closest_marker("e2e") for item in session.items
    ):
        return
    try:
        config.stash[FOUND] = find_binaries()
    except SandboxError as error:
        config.stash[FOUND] = error


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    match config.stash.get(FOUND, None):
        case None:
            return []
        case Binaries(origin=origin):
            return [f"control plane: {origin}"]
        case error:
            return f"control plane: {error}".splitlines()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    seconds = config.stash.get(START_SECONDS, None)
    if seconds is not None:
        terminalreporter.write_line(f"control plane: two API servers were ready in {seconds:.1f} s")
