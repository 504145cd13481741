"""`understudy kubeconfig`: a kubeconfig whose server is the proxy."""

import argparse
import base64
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from proxy.cli.kubeconfig_source import find_context
from proxy.cli.options.config import parse_server_url
from proxy.cli.options.impersonation import add_impersonation_options, wanted_user_from
from proxy.cli.registry import CommandRegistry
from proxy.core.errors import OperatorError
from proxy.core.userinfo import UserInfo
from proxy.pki.authority import write_secret

_DESCRIPTION = """\
Write a kubeconfig whose server is the proxy. The credential is a token, a client certificate, or
the user of a context in an existing kubeconfig. That user is copied unchanged, including its exec
plugin; only server and CA are replaced.
"""
_EPILOG = """\
examples:
  understudy kubeconfig --server https://proxy:8443 --ca ca.crt --from-context prod > k.yaml
  understudy kubeconfig --server https://proxy:8443 --ca ca.crt --token-file token \\
    --as system:node:node-1 --output k.yaml
  kubectl --kubeconfig k.yaml get pods

exit codes: 0 written, 1 error, 2 invalid options
"""


class KubeconfigError(OperatorError):
    """No kubeconfig can be written with these options."""


def register(commands: CommandRegistry) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser(
        "kubeconfig",
        help="write a kubeconfig whose server is the proxy",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--server", type=parse_server_url, required=True, metavar="URL", help="https://PROXY[:PORT]"
    )
    parser.add_argument(
        "--ca",
        type=Path,
        metavar="FILE",
        help="CA file to verify the proxy; default: the system's CAs",
    )
    _add_credential_options(parser)
    add_impersonation_options(parser, required=False)
    parser.add_argument("--namespace", metavar="NAME", help="default namespace of kubectl")
    parser.add_argument(
        "--name",
        default="understudy",
        metavar="NAME",
        help="name of the context; default: understudy",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="file to create, with mode 0600; default: standard output",
    )
    parser.add_argument("--force", action="store_true", help="replace the output file if it exists")
    parser.set_defaults(run=run)


def _add_credential_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("credential")
    group.add_argument("--token-file", type=Path, metavar="FILE", help="file with a bearer token")
    group.add_argument("--client-certificate", type=Path, metavar="FILE", help="client certificate")
    group.add_argument(
        "--client-key", type=Path, metavar="FILE", help="key of the client certificate"
    )
    group.add_argument(
        "--by-path",
        action="store_true",
        help="refer to these files by path instead of copying their contents, for renewed files",
    )
    group.add_argument(
        "--from-context",
        metavar="CONTEXT",
        help="user of this context, including its exec plugin; '' is the current context",
    )
    group.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="kubeconfig of that context; default: as for kubectl",
    )


def run(options: argparse.Namespace) -> int:
    """Build the kubeconfig, then write it."""
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
        user = _user_from_files(options)
    else:
        _check_no_files(options)
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
        "clusters": [{"name": name, "cluster": _proxy_cluster(cluster, options)}],
        "contexts": [{"name": name, "context": context}],
        "users": [{"name": name, "user": user}],
    }


def _proxy_cluster(cluster: Mapping[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Return the cluster entry with the proxy as its server.

    All other fields are kept: a forward proxy, and the input of an exec plugin.
    """
    replaced = (
        "server",
        "certificate-authority",
        "certificate-authority-data",
        "insecure-skip-tls-verify",
        "tls-server-name",
    )
    kept = {key: value for key, value in cluster.items() if key not in replaced}
    added = {"server": options.server}
    if options.ca is not None:
        added |= _file_entry("certificate-authority", options.ca, options)
    return added | kept


def _user_from_files(options: argparse.Namespace) -> dict[str, Any]:
    certificate, key = options.client_certificate, options.client_key
    if (certificate is None) != (key is None):
        raise KubeconfigError("--client-certificate and --client-key must be used together")
    if (options.token_file is None) == (certificate is None):
        raise KubeconfigError(
            "use exactly one of --token-file, --client-certificate and --from-context"
        )
    if certificate is not None:
        return _file_entry("client-certificate", certificate, options) | _file_entry(
            "client-key", key, options
        )
    if options.by_path:
        return {"tokenFile": str(options.token_file.absolute())}
    return {"token": _token(options.token_file)}


def _check_no_files(options: argparse.Namespace) -> None:
    if options.token_file or options.client_certificate or options.client_key:
        raise KubeconfigError(
            "--from-context cannot be combined with --token-file or --client-certificate"
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
        raise KubeconfigError(f"{file} contains no bearer token")
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
    """Return a user entry without impersonation, so that two users are never mixed."""
    removed = ("as", "as-uid", "as-groups", "as-user-extra")
    return {key: value for key, value in user.items() if key not in removed}
