"""`understudy kubeconfig`: a kubeconfig that goes through the proxy."""

import argparse
import base64
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from proxy.cli.kubeconfig_source import find_context
from proxy.cli.options.config import server_url
from proxy.cli.options.impersonation import add_impersonation_options, wanted_user_from
from proxy.cli.registry import CommandRegistry
from proxy.core.errors import OperatorError
from proxy.core.userinfo import UserInfo
from proxy.pki.authority import write_secret

_DESCRIPTION = """\
Write a kubeconfig whose server is the proxy. Who you are comes from a token, from a certificate, or
from a context of a kubeconfig that you have: its user stays as it is, with its exec plugin, and
only server and CA are others.
"""
_EPILOG = """\
examples:
  understudy kubeconfig --server https://proxy:8443 --ca ca.crt --from-context prod > k.yaml
  understudy kubeconfig --server https://proxy:8443 --ca ca.crt --token-file token \\
    --as system:node:node-1 --output k.yaml
  kubectl --kubeconfig k.yaml get pods

exit codes: 0 written, 1 cannot, 2 wrong options
"""


class KubeconfigError(OperatorError):
    """No kubeconfig can be written by these options."""


def register(commands: CommandRegistry) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser(
        "kubeconfig",
        help="write a kubeconfig that goes through the proxy",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--server", type=server_url, required=True, metavar="URL", help="https://PROXY[:PORT]"
    )
    parser.add_argument(
        "--ca",
        type=Path,
        metavar="FILE",
        help="the CA that vouches for the proxy; default: what the system trusts",
    )
    _add_credentials(parser)
    add_impersonation_options(parser, required=False)
    parser.add_argument("--namespace", metavar="NAME", help="where kubectl looks by default")
    parser.add_argument(
        "--name", default="understudy", metavar="NAME", help="of the context; default: understudy"
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="a new file, for you alone; default: print it"
    )
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")
    parser.set_defaults(run=run)


def _add_credentials(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("who you are")
    group.add_argument("--token-file", type=Path, metavar="FILE", help="your bearer token")
    group.add_argument("--client-certificate", type=Path, metavar="FILE", help="your certificate")
    group.add_argument("--client-key", type=Path, metavar="FILE", help="and its key")
    group.add_argument(
        "--by-path",
        action="store_true",
        help="name these files instead of copying what they hold, for files that are renewed",
    )
    group.add_argument(
        "--from-context",
        metavar="CONTEXT",
        help="the user of this context, exec plugin and all; '' is the current one",
    )
    group.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="where that context is; default: as kubectl finds it",
    )


def run(options: argparse.Namespace) -> int:
    """Build it whole, then write it."""
    document = _document(options, wanted_user_from(options))
    text = yaml.safe_dump(document, sort_keys=False)
    if options.output is None:
        sys.stdout.write(text)
        return 0
    if options.output.exists() and not options.force:
        raise KubeconfigError(f"{options.output} exists; --force replaces it")
    try:
        write_secret(options.output, text.encode())
    except OSError as error:
        raise KubeconfigError(f"cannot write {options.output}: {error.strerror}") from error
    return 0


def _document(options: argparse.Namespace, wanted_user: UserInfo | None) -> dict[str, Any]:
    name = options.name
    cluster: dict[str, Any] = {}
    context: dict[str, Any] = {"cluster": name, "user": name}
    if options.from_context is None:
        user = _given_user(options)
    else:
        _check_alone(options)
        found = find_context(options.from_context, options.kubeconfig)
        cluster, user = found.cluster, found.user
        if found.namespace:
            context["namespace"] = found.namespace
    if options.namespace is not None:
        context["namespace"] = options.namespace
    if wanted_user is not None:
        user = _without_impersonation(user) | _impersonation(wanted_user)
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": _to_proxy(cluster, options)}],
        "contexts": [{"name": name, "context": context}],
        "users": [{"name": name, "user": user}],
    }


def _to_proxy(cluster: Mapping[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Return a cluster with the proxy in the place of its server.

    Whatever else it says stays: a way through a forward proxy, and what an exec plugin is told.
    """
    theirs = (
        "server",
        "certificate-authority",
        "certificate-authority-data",
        "insecure-skip-tls-verify",
        "tls-server-name",
    )
    kept = {key: value for key, value in cluster.items() if key not in theirs}
    ours = {"server": options.server}
    if options.ca is not None:
        ours |= _file_entry("certificate-authority", options.ca, options)
    return ours | kept


def _given_user(options: argparse.Namespace) -> dict[str, Any]:
    certificate, key = options.client_certificate, options.client_key
    if (certificate is None) != (key is None):
        raise KubeconfigError("--client-certificate and --client-key go together")
    if (options.token_file is None) == (certificate is None):
        raise KubeconfigError(
            "say who you are, in one way: --token-file, --client-certificate or --from-context"
        )
    if certificate is not None:
        return _file_entry("client-certificate", certificate, options) | _file_entry(
            "client-key", key, options
        )
    if options.by_path:
        return {"tokenFile": str(options.token_file.absolute())}
    return {"token": _token(options.token_file)}


def _check_alone(options: argparse.Namespace) -> None:
    if options.token_file or options.client_certificate or options.client_key:
        raise KubeconfigError(
            "--from-context says who you are; --token-file and --client-certificate say it again"
        )


def _file_entry(key: str, file: Path, options: argparse.Namespace) -> dict[str, Any]:
    content = _read(file)
    if b"-----BEGIN " not in content:
        raise KubeconfigError(f"{file} is not PEM")
    if options.by_path:
        return {key: str(file.absolute())}
    return {f"{key}-data": base64.b64encode(content).decode("ascii")}


def _token(file: Path) -> str:
    token = _read(file).strip()
    if not token or not token.isascii() or not token.decode().isprintable() or b" " in token:
        raise KubeconfigError(f"{file} holds no bearer token")
    return token.decode()


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise KubeconfigError(f"cannot read {file}: {error.strerror}") from error


def _impersonation(wanted_user: UserInfo) -> dict[str, Any]:
    entry: dict[str, Any] = {"as": wanted_user.name}
    if wanted_user.uid:
        entry["as-uid"] = wanted_user.uid
    if wanted_user.groups:
        entry["as-groups"] = list(wanted_user.groups)
    if wanted_user.extra:
        entry["as-user-extra"] = {key: list(values) for key, values in wanted_user.extra}
    return entry


def _without_impersonation(user: Mapping[str, Any]) -> dict[str, Any]:
    """Return a user who acts as nobody: half of one identity and half of another is neither."""
    ours = ("as", "as-uid", "as-groups", "as-user-extra")
    return {key: value for key, value in user.items() if key not in ours}
