"""`understudy act`: an unprivileged hop beside an application, which acts as one identity."""

import argparse
import asyncio
import signal
from pathlib import Path

import uvloop

from proxy.cli.options.config import listen_address, server_address
from proxy.cli.options.impersonation import add_impersonation_options, wanted_user_from
from proxy.cli.registry import CommandRegistry
from proxy.core.errors import OperatorError
from proxy.core.userinfo import UserInfo
from proxy.sidecar.service_account_dir import ServiceAccountDir
from proxy.sidecar.sidecar import SidecarOptions, is_loopback, run_sidecar
from proxy.telemetry.logs import configure_logs

_DESCRIPTION = """\
Listen on loopback, and pass every request on to the proxy as one identity. The application beside
it (in the same pod, or on the same node) keeps its own token: that is what the proxy authenticates,
and whether it may act so is the proxy's decision. This hop has no credential and no rights; it adds
the Impersonate-* headers you name here, and refuses requests that bring their own.
"""
_EPILOG = """\
an unmodified in-cluster client in the same pod:
  the hop      understudy act --as 'system:node:$(NODE_NAME)' \\
                 --server https://understudy.understudy.svc --ca /etc/understudy/ca.crt \\
                 --in-cluster-dir /shared --namespace '$(POD_NAMESPACE)' \\
                 --token-link /var/run/secrets/understudy/token
  its client   KUBERNETES_SERVICE_HOST=127.0.0.1 KUBERNETES_SERVICE_PORT=7443, /shared mounted at
               /var/run/secrets/kubernetes.io/serviceaccount, and its projected token at
               /var/run/secrets/understudy

exit codes: 0 ended by SIGTERM or SIGINT, 1 cannot run, 2 wrong options
"""


class ActError(OperatorError):
    """These options are refused together."""


def register(commands: CommandRegistry) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser(
        "act",
        aliases=["sidecar"],
        help="run an unprivileged hop beside an application",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--server", type=server_address, required=True, metavar="URL", help="https://PROXY[:PORT]"
    )
    parser.add_argument(
        "--ca",
        type=Path,
        metavar="FILE",
        help="the CA that vouches for the proxy, read again when it changes; default: the system's",
    )
    add_impersonation_options(parser, required=True)
    _add_listening(parser)
    _add_handout(parser)
    parser.add_argument("--log-format", choices=("json", "text"), default="json")
    parser.add_argument("--log-level", choices=("debug", "info", "warning"), default="info")
    parser.set_defaults(run=run)


def _add_listening(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("where the application reaches the hop")
    group.add_argument(
        "--listen",
        type=listen_address,
        default=("127.0.0.1", 7443),
        metavar="ADDRESS:PORT",
        help="default: 127.0.0.1:7443",
    )
    group.add_argument(
        "--beyond-loopback",
        action="store_true",
        help="let --listen be any address: whoever reaches it acts as this identity if the proxy "
        "lets their own token do so",
    )
    group.add_argument(
        "--certificate-dir",
        type=Path,
        metavar="DIR",
        help="keep certificate and key here, so that applications go on trusting the hop after its "
        "restart; mount it nowhere else. Default: in memory, and new at every start",
    )


def _add_handout(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what the application is given")
    group.add_argument(
        "--ca-out",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="write the hop's CA here, once it listens; may be repeated",
    )
    group.add_argument(
        "--in-cluster-dir",
        type=Path,
        metavar="DIR",
        help="make this directory look like a service account's: ca.crt, and the two below",
    )
    group.add_argument("--namespace", metavar="NAME", help="DIR/namespace: the pod's namespace")
    group.add_argument(
        "--token-link",
        type=Path,
        metavar="PATH",
        help="DIR/token: a link to where the application's container has its token, so that it "
        "always reads the newest",
    )


def run(options: argparse.Namespace) -> int:
    """Pass requests on until a signal comes."""
    settings = _settings(options)
    configure_logs(style=options.log_format, level=options.log_level)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_act(settings))
    return 0


def _settings(options: argparse.Namespace) -> SidecarOptions:
    wanted_user: UserInfo | None = wanted_user_from(options)
    assert wanted_user is not None  # argparse insists on it
    host, port = options.listen
    if not options.beyond_loopback and not is_loopback(host):
        raise ActError(
            f"--listen {host}:{port} can be reached by others; a loopback address such as "
            "127.0.0.1 cannot, and --beyond-loopback allows any"
        )
    if options.in_cluster_dir is None and (options.namespace or options.token_link):
        raise ActError("--namespace and --token-link need --in-cluster-dir")
    return SidecarOptions(
        wanted_user,
        options.server,
        (host, port),
        ca_file=options.ca,
        kept=options.certificate_dir,
        service_account_dir=ServiceAccountDir(
            tuple(options.ca_out), options.in_cluster_dir, options.namespace, options.token_link
        ),
    )


async def _act(settings: SidecarOptions) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with run_sidecar(settings) as sidecar:
        await stop.wait()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, sidecar.drain.skip_grace_period)
        await sidecar.drain.run()
