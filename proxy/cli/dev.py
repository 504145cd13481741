"""`understudy dev`: a local control plane with the proxy in front of it, and a guided tour."""

import argparse
import os
import signal
import sys
import time
from types import FrameType

from proxy.cli.registry import CommandRegistry
from proxy.sandbox.tour.deputy import deputy
from proxy.sandbox.tour.environment import TourEnvironment, prepared_environment
from proxy.sandbox.tour.node_agent import node_agent
from proxy.sandbox.tour.pass_through import pass_through
from proxy.sandbox.tour.printer import TextPrinter
from proxy.sandbox.tour.requests import file_name
from proxy.sandbox.tour.runner import TourServer, TourUser, run_tour

_CHECK_SECONDS = 1.0
_EXIT_BROKEN_PIPE = 141


_DESCRIPTION = """\
Start etcd, kube-apiserver and the proxy on this machine, run the user stories of KEP-5284 on them,
and keep them running until Ctrl-C. The programs are built on first use, which takes some minutes.
"""
_EPILOG = """\
examples:
  understudy dev                 run the tour, then keep the cluster for experiments
  understudy dev --once          run the tour only

exit codes: 0 all steps passed, 1 a step failed or the cluster did not start, 2 invalid options,
130 interrupted before the end of the tour, 141 output pipe closed
"""


def register(commands: CommandRegistry) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser(
        "dev",
        help="run a local control plane with the proxy, with a guided tour",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--once", action="store_true", help="exit after the tour")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the tour; keep the cluster running afterwards on a terminal, unless --once is set."""
    signal.signal(signal.SIGTERM, _interrupt)
    printer = TextPrinter(sys.stdout, is_coloured=_uses_colour())
    is_staying = not options.once and sys.stdin.isatty() and sys.stdout.isatty()
    try:
        with prepared_environment(printer.announce) as environment:
            _run_tour(environment, printer)
            if is_staying:
                _wait_for_interrupt(environment, printer)
    except BrokenPipeError:
        # The reader closed the pipe. Without this, Python would report the error again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _EXIT_BROKEN_PIPE
    return 0


def _run_tour(environment: TourEnvironment, printer: TextPrinter) -> None:
    server = environment.understudy  # `environment.native` would give the same results
    chapters = [
        pass_through(environment),
        node_agent(environment, server),
        deputy(environment, server),
    ]
    steps = run_tour(
        chapters,
        admin=environment.plain.admin,
        on_chapter=printer.print_chapter,
        on_step=printer.print_step,
    )
    printer.print_line()
    printer.print_line(f"All {steps} steps passed.")
    _print_kubeconfigs(environment, printer)


def _wait_for_interrupt(environment: TourEnvironment, printer: TextPrinter) -> None:
    """Wait for Ctrl-C, which is the normal end; raise if a process exits before."""
    try:
        printer.print_line("The cluster keeps running until Ctrl-C.")
        while True:
            environment.ensure_running()
            time.sleep(_CHECK_SECONDS)
    except KeyboardInterrupt:
        return


def _print_kubeconfigs(environment: TourEnvironment, printer: TextPrinter) -> None:
    people = environment.users
    callers = [people.alice, people.bob, people.robot, people.agent, people.deputy]
    servers: list[tuple[TourServer, str, list[TourUser]]] = [
        (environment.understudy, "through Understudy", callers),
        (environment.native, "at the API server with the feature", [people.admin]),
        (environment.plain, "at the API server without it, behind Understudy", [people.admin]),
    ]
    printer.print_line()
    printer.print_line(f"kubectl is {environment.control_plane.binaries.kubectl}; kubeconfigs:")
    for target, place, users in servers:
        for user in users:
            path = target.kubeconfig_for(user.credential, name=file_name(user))
            printer.print_line(f"  {path}  {file_name(user)}, {place}")


def _uses_colour() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """Handle SIGTERM like Ctrl-C, so that all processes are stopped in order."""
    raise KeyboardInterrupt
