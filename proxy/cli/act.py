"""`understudy act`: a sidecar without privileges that impersonates one user."""

import argparse
import asyncio
import signal
from pathlib import Path

import uvloop

from proxy.cli.options.config import parse_listen_address, parse_server_address
from proxy.cli.options.impersonation import add_impersonation_options, wanted_user_from
from proxy.cli.registry import CommandRegistry
from proxy.core.errors import OperatorError
from proxy.core.userinfo import UserInfo
from proxy.sidecar.service_account_dir import ServiceAccountDir
from proxy.sidecar.sidecar import SidecarOptions, is_loopback, run_sidecar
from proxy.telemetry.logs import configure_logs

_DESCRIPTION = """\
Run a sidecar that listens on loopback and forwards every request to the proxy, impersonating one
user. The application in the same pod, or on the same node, keeps its own token. The proxy
authenticates that token and decides whether its owner may impersonate the user. The sidecar has no
credential and no permissions. It adds the Impersonate-* headers of the user named here, and rejects
requests that already have such headers.
"""
_EPILOG = """\
an unmodified in-cluster client in the same pod:
  sidecar      understudy act --as 'system:node:$(NODE_NAME)' \\
                 --server https://understudy.understudy.svc --ca /etc/understudy/ca.crt \\
                 --in-cluster-dir /shared --namespace '$(POD_NAMESPACE)' \\
                 --token-link /var/run/secrets/understudy/token
  application  KUBERNETES_SERVICE_HOST=127.0.0.1 KUBERNETES_SERVICE_PORT=7443, /shared mounted at
               /var/run/secrets/kubernetes.io/serviceaccount, and its projected token at
               /var/run/secrets/understudy

exit codes: 0 stopped by SIGTERM or SIGINT, 1 error, 2 invalid options
"""


class ActError(OperatorError):
    """These options are invalid in combination."""


def register(commands: CommandRegistry) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser(
        "act",
        aliases=["sidecar"],
        help="run a sidecar that impersonates one user",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--server",
        type=parse_server_address,
        required=True,
        metavar="URL",
        help="https://PROXY[:PORT]",
    )
    parser.add_argument(
        "--ca",
        type=Path,
        metavar="FILE",
        help="CA file to verify the proxy, reread when it changes; default: the system's CAs",
    )
    add_impersonation_options(parser, required=True)
    _add_listen_options(parser)
    _add_file_options(parser)
    parser.add_argument("--log-format", choices=("json", "text"), default="json")
    parser.add_argument("--log-level", choices=("debug", "info", "warning"), default="info")
    parser.set_defaults(run=run)


def _add_listen_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("listening")
    group.add_argument(
        "--listen",
        type=parse_listen_address,
        default=("127.0.0.1", 7443),
        metavar="ADDRESS:PORT",
        help="default: 127.0.0.1:7443",
    )
    group.add_argument(
        "--beyond-loopback",
        action="store_true",
        help="allow any --listen address; every client that reaches it can impersonate this user, "
        "if the proxy authorizes the client's own token",
    )
    group.add_argument(
        "--certificate-dir",
        type=Path,
        metavar="DIR",
        help="store certificate and key in this directory, so that applications still trust the "
        "sidecar after a restart; do not mount it elsewhere; default: a new certificate in memory "
        "at each start",
    )


def _add_file_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("files for the application")
    group.add_argument(
        "--ca-out",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="write the sidecar's CA to this file, once it listens; may be repeated",
    )
    group.add_argument(
        "--in-cluster-dir",
        type=Path,
        metavar="DIR",
        help="write ca.crt and the two files below to this directory, laid out like a service "
        "account volume",
    )
    group.add_argument(
        "--namespace", metavar="NAME", help="content of DIR/namespace: the pod's namespace"
    )
    group.add_argument(
        "--token-link",
        type=Path,
        metavar="PATH",
        help="target of the link DIR/token: the token's path in the application's container, so "
        "that it always reads the current token",
    )


def run(options: argparse.Namespace) -> int:
    """Forward requests until a signal arrives."""
    settings = _settings(options)
    configure_logs(style=options.log_format, level=options.log_level)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_act(settings))
    return 0


def _settings(options: argparse.Namespace) -> SidecarOptions:
    wanted_user: UserInfo | None = wanted_user_from(options)
    assert wanted_user is not None  # argparse requires it
    host, port = options.listen
    if not options.beyond_loopback and not is_loopback(host):
        raise ActError(
            f"--listen {host}:{port} can be reached by others: use a loopback address such as "
            "127.0.0.1, or --beyond-loopback"
        )
    if options.in_cluster_dir is None and (options.namespace or options.token_link):
        raise ActError("--namespace and --token-link need --in-cluster-dir")
    return SidecarOptions(
        wanted_user,
        options.server,
        (host, port),
        ca_file=options.ca,
        certificate_dir=options.certificate_dir,
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
