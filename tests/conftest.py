"""Guards for all tests, and the real control plane for those that need one.

A test that takes `control_plane`, `native_api_server` or `plain_api_server`, directly or through
another fixture, carries the mark `e2e` by that alone: `pytest -m 'not e2e'` needs no programs.
"""

import inspect
import os
import signal
import time
from collections.abc import Iterator

import pytest
from blockbuster import blockbuster_ctx
from xdist.remote import Producer
from xdist.workermanage import WorkerController

from proxy.sandbox.api_server import ApiServer, ApiServerOptions
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.errors import SandboxError
from proxy.sandbox.programs.binaries import Binaries, find_binaries
from tests.support.build_once import report_missing
from tests.support.control_plane import TOKEN_USERS
from tests.support.doc_references import remember_collected, unshown_tests
from tests.support.sizes import IS_SOAKING, SOAK_SECONDS
from tests.support.two_phases import TwoPhases

FOUND = pytest.StashKey[Binaries | SandboxError]()
START_SECONDS = pytest.StashKey[float]()
PASSED = pytest.StashKey[set[str]]()
UNSHOWN = pytest.StashKey[list[str]]()
REAL_SERVERS = {"binaries", "control_plane"}


@pytest.fixture(autouse=True)
def event_loop_guard(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail an asynchronous test in which our own code blocks the event loop."""
    function = getattr(request, "function", None)
    if not inspect.iscoroutinefunction(function and inspect.unwrap(function)):
        yield
        return
    # The loop apart runs in a thread and is there to be blocked.
    with blockbuster_ctx("proxy", excluded_modules=["proxy.kubeclient.kubeconfig"]):
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


def pytest_configure(config: pytest.Config) -> None:
    config.stash[PASSED] = set()
    config.pluginmanager.register(_Passed(config.stash[PASSED]))
    # An API server that collects garbage less often starts with 13 % less CPU time.
    os.environ.setdefault("GOGC", "400")
    # A run in the background inherits ignored interrupts and hands them on to the programs it
    # starts, which then could not be interrupted by the tests that do so.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> TwoPhases:
    """Let several workers run whole groups in parallel, then one worker what measures."""
    return TwoPhases(config, log)


@pytest.hookimpl(tryfirst=True)  # before `-m` selects by mark
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if REAL_SERVERS.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.e2e)
        if IS_SOAKING and item.get_closest_marker("soak"):
            item.add_marker(pytest.mark.timeout(SOAK_SECONDS), append=False)


class _Passed:
    """Notes which tests have passed, without their parameters, in every process of the run."""

    def __init__(self, passed: set[str]) -> None:
        self._passed = passed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._passed.add(report.nodeid.partition("[")[0])


@pytest.hookimpl(tryfirst=True)  # before the terminal asks for lines about the outcome
def pytest_collection_finish(session: pytest.Session) -> None:
    if _is_whole(session.config):
        remember_collected(item.nodeid for item in session.items)
    if not session.config.option.collectonly and any(
        item.get_closest_marker("e2e") for item in session.items
    ):
        _find_programs(session.config)


def pytest_report_header(config: pytest.Config) -> list[str]:
    # Of several processes only the first has a terminal, and it collects no tests.
    if not config.getoption("numprocesses", None):
        return []
    _find_programs(config)
    return _origin(config)


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    return _origin(config)


def _find_programs(config: pytest.Config) -> None:
    """Find or build the programs before the first test: a build outlasts any test's timeout."""
    try:
        config.stash[FOUND] = find_binaries()
    except SandboxError as error:
        config.stash[FOUND] = error


def _origin(config: pytest.Config) -> list[str]:
    match config.stash.get(FOUND, None):
        case None:
            return []
        case Binaries(origin=origin):
            return [f"control plane: {origin}"]
        case error:
            return f"control plane: {error}".splitlines()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    """Tell a worker whether the run is of all tests, which it cannot see."""
    node.workerinput["is_whole"] = _is_whole(node.config)


def _is_whole(config: pytest.Config) -> bool:
    """Return whether a run is of all tests."""
    if hasattr(config, "workerinput"):
        return bool(config.workerinput["is_whole"])
    option = config.option
    is_narrowed = option.keyword or option.markexpr or option.collectonly
    return config.args_source is pytest.Config.ArgsSource.TESTPATHS and not is_narrowed


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail a run of all tests in which a test that a document relies on has not passed."""
    config = session.config
    is_worker = hasattr(config, "workerinput")
    if exitstatus == pytest.ExitCode.OK and _is_whole(config) and not is_worker:
        config.stash[UNSHOWN] = unshown_tests(config.stash[PASSED])
        if config.stash[UNSHOWN]:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for test in config.stash.get(UNSHOWN, []):
        terminalreporter.write_line(f"NOT PASSED, but named in docs/: {test}")
    seconds = config.stash.get(START_SECONDS, None)
    if seconds is not None:
        terminalreporter.write_line(f"control plane: two API servers were ready in {seconds:.1f} s")
