"""`understudy dev`: a whole control plane with the proxy before it, and a tour of what it does."""

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
from proxy.sandbox.tour.pass_through import first_light
from proxy.sandbox.tour.printer import TextPrinter
from proxy.sandbox.tour.requests import file_name
from proxy.sandbox.tour.runner import TourServer, TourUser, run_tour

_CHECK_SECONDS = 1.0
_EXIT_BROKEN_PIPE = 141


_DESCRIPTION = """\
Start etcd, kube-apiserver and the proxy on this machine, play the KEP's user stories on them, and
stay up until Ctrl-C. The programs are built on first use, which takes some minutes.
"""
_EPILOG = """\
examples:
  understudy dev                 the tour, and then a cluster to try things on
  understudy dev --once          the tour alone

exit codes: 0 all went as promised, 1 it did not or could not start, 2 wrong options,
130 interrupted before the end of the tour
"""


def register(commands: CommandRegistry) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser(
        "dev",
        help="run a local control plane with the proxy, and take a tour",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--once", action="store_true", help="exit after the tour")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Play the tour; stay up afterwards when a person is there and did not say otherwise."""
    signal.signal(signal.SIGTERM, _interrupt)
    narrator = TextPrinter(sys.stdout, is_coloured=_wants_colour())
    is_staying = not options.once and sys.stdin.isatty() and sys.stdout.isatty()
    try:
        with prepared_environment(narrator.announce) as stage:
            _play(stage, narrator)
            if is_staying:
                _stay(stage, narrator)
    except BrokenPipeError:
        # Whoever read our output has seen enough. Python would complain once more at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _EXIT_BROKEN_PIPE
    return 0


def _play(stage: TourEnvironment, narrator: TextPrinter) -> None:
    door = stage.understudy  # `stage.native` would tell the same tale
    chapters = [first_light(stage), node_agent(stage, door), deputy(stage, door)]
    steps = run_tour(chapters, admin=stage.plain.admin, narrator=narrator)
    narrator.say()
    narrator.say(f"All {steps} steps went as promised.")
    _tell_kubeconfigs(stage, narrator)


def _stay(stage: TourEnvironment, narrator: TextPrinter) -> None:
    """Wait for Ctrl-C, which is how this is meant to end; raise if a program ends before."""
    try:
        narrator.say("All of this stays until Ctrl-C.")
        while True:
            stage.ensure_running()
            time.sleep(_CHECK_SECONDS)
    except KeyboardInterrupt:
        return


def _tell_kubeconfigs(stage: TourEnvironment, narrator: TextPrinter) -> None:
    people = stage.people
    callers = [people.alice, people.bob, people.robot, people.agent, people.deputy]
    doors: list[tuple[TourServer, str, list[TourUser]]] = [
        (stage.understudy, "through Understudy", callers),
        (stage.native, "at the API server with the feature", [people.admin]),
        (stage.plain, "at the API server without it, behind Understudy", [people.admin]),
    ]
    narrator.say()
    narrator.say(f"kubectl is {stage.control_plane.binaries.kubectl}; kubeconfigs:")
    for target, place, owners in doors:
        for person in owners:
            path = target.kubeconfig_for(person.credential, name=file_name(person))
            narrator.say(f"  {path}  {file_name(person)}, {place}")


def _wants_colour() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """Take the road of Ctrl-C, so that everything is stopped in its order."""
    raise KeyboardInterrupt
