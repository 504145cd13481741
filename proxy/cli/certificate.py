"""`understudy certificate`: a CA and a serving certificate as manifests, without cert-manager."""

import argparse
import base64
import ipaddress
from collections.abc import Sequence
from pathlib import Path

import yaml

from proxy.cli.registry import CommandRegistry
from proxy.core.errors import OperatorError
from proxy.core.userinfo import is_subdomain
from proxy.pki.authority import (
    DAY,
    CertificateAuthority,
    KeyPair,
    Validity,
)

_DESCRIPTION = """\
Print two manifests: a ConfigMap with a new CA, for clients, and a kubernetes.io/tls Secret with a
certificate that it vouches for, for the proxy to serve by. The CA's key is forgotten at once, so
nobody can ever sign in its name again; for a new certificate run this again, and give clients the
new CA before the proxy has its Secret.
"""
_EPILOG = """\
examples:
  understudy certificate --service understudy --namespace understudy | kubectl apply -f -
  understudy certificate proxy.example.com 192.0.2.7 --ca-out ca.crt > serving.yaml

The Secret holds a private key: print it into a pipe or a file of your own, not on a terminal.
exit codes: 0 printed, 1 cannot, 2 wrong options
"""


class _BlockDumper(yaml.SafeDumper):
    """Writes what has several lines as several lines."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_BlockDumper.add_representer(str, _represent_text)


class CertificateOptionError(OperatorError):
    """No certificate can be made by these options."""


def register(commands: CommandRegistry) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser(
        "certificate",
        help="print a serving certificate and its CA as manifests",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "names",
        nargs="*",
        type=_name,
        metavar="NAME",
        help="a DNS name or an IP address that clients use",
    )
    parser.add_argument(
        "--service",
        metavar="NAME",
        help="add the names by which a Service is reached inside the cluster",
    )
    parser.add_argument(
        "--namespace",
        type=_object_name,
        default="understudy",
        metavar="NAME",
        help="default: understudy",
    )
    parser.add_argument(
        "--secret",
        type=_object_name,
        default="understudy-serving",
        metavar="NAME",
        help="what the Secret is called; default: understudy-serving",
    )
    parser.add_argument(
        "--config-map",
        type=_object_name,
        default="understudy-ca",
        metavar="NAME",
        help="what the ConfigMap is called; default: understudy-ca",
    )
    parser.add_argument(
        "--days", type=_days, default=365, metavar="N", help="how long both hold; default: 365"
    )
    parser.add_argument(
        "--ca-out", type=Path, metavar="FILE", help="also write the CA here, for a kubeconfig"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Mint, and print."""
    names = [*_service_names(options.service, options.namespace), *options.names]
    if not names:
        raise CertificateOptionError("name at least one DNS name or IP address, or a --service")
    validity = Validity(lasts=options.days * DAY)
    authority = CertificateAuthority("understudy", validity=validity)
    pair = authority.issue_server(*dict.fromkeys(names), validity=validity)
    if options.ca_out is not None:
        _write(options.ca_out, authority.certificate_pem)
    print(_manifests(options, authority.certificate_pem, pair), end="")
    return 0


def _manifests(options: argparse.Namespace, ca_pem: bytes, pair: KeyPair) -> str:
    documents = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": options.config_map, "namespace": options.namespace},
            "data": {"ca.crt": ca_pem.decode()},
        },
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": options.secret, "namespace": options.namespace},
            "type": "kubernetes.io/tls",
            "data": {
                "tls.crt": _base64(pair.certificate_pem),
                "tls.key": _base64(pair.key_pem),
                "ca.crt": _base64(ca_pem),
            },
        },
    ]
    return yaml.dump_all(documents, Dumper=_BlockDumper, sort_keys=False)


def _service_names(service: str | None, namespace: str) -> Sequence[str]:
    if service is None:
        return ()
    inside = f"{service}.{namespace}.svc"
    if not is_subdomain(inside):
        raise CertificateOptionError(f"no Service is reached as {inside}")
    return (inside, f"{inside}.cluster.local", f"{service}.{namespace}", service)


def _write(file: Path, content: bytes) -> None:
    try:
        file.write_bytes(content)
    except OSError as error:
        raise CertificateOptionError(f"cannot write {file}: {error.strerror}") from error


def _name(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        pass
    name = text.lower()
    if not is_subdomain(name.removeprefix("*.")):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a DNS name nor an IP address")
    return name


def _object_name(text: str) -> str:
    if not is_subdomain(text):
        raise argparse.ArgumentTypeError(f"{text!r} cannot be the name of an object")
    return text


def _days(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 3650:  # noqa: PLR2004 - ten years
        raise argparse.ArgumentTypeError("must be a number of days from 1 to 3650")
    return int(text)


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
