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
Print two manifests: a ConfigMap with a new CA for clients, and a kubernetes.io/tls Secret with a
serving certificate of that CA for the proxy. The CA's private key is discarded at once, so it can
never sign another certificate. To renew, run this command again, and distribute the new CA to
clients before you replace the Secret.
"""
_EPILOG = """\
examples:
  understudy certificate --service understudy --namespace understudy | kubectl apply -f -
  understudy certificate proxy.example.com 192.0.2.7 --ca-out ca.crt > serving.yaml

The Secret contains a private key: write it to a pipe or a private file, not to a terminal.
exit codes: 0 printed, 1 error, 2 invalid options
"""


class _BlockDumper(yaml.SafeDumper):
    """A YAML dumper that writes multi-line strings as block scalars."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_BlockDumper.add_representer(str, _represent_text)


class CertificateOptionError(OperatorError):
    """No certificate can be issued with these options."""


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
        type=_parse_name,
        metavar="NAME",
        help="DNS name or IP address that clients connect to",
    )
    parser.add_argument(
        "--service",
        metavar="NAME",
        help="add the in-cluster DNS names of this Service",
    )
    parser.add_argument(
        "--namespace",
        type=_parse_object_name,
        default="understudy",
        metavar="NAME",
        help="namespace of Service, Secret and ConfigMap; default: understudy",
    )
    parser.add_argument(
        "--secret",
        type=_parse_object_name,
        default="understudy-serving",
        metavar="NAME",
        help="name of the Secret; default: understudy-serving",
    )
    parser.add_argument(
        "--config-map",
        type=_parse_object_name,
        default="understudy-ca",
        metavar="NAME",
        help="name of the ConfigMap; default: understudy-ca",
    )
    parser.add_argument(
        "--days", type=_parse_days, default=365, metavar="N", help="validity in days; default: 365"
    )
    parser.add_argument(
        "--ca-out",
        type=Path,
        metavar="FILE",
        help="also write the CA to this file, for a kubeconfig",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Issue the certificate and print the manifests."""
    names = [*_service_names(options.service, options.namespace), *options.names]
    if not names:
        raise CertificateOptionError("specify at least one DNS name or IP address, or --service")
    validity = Validity(duration=options.days * DAY)
    authority = CertificateAuthority("understudy", validity=validity)
    pair = authority.issue_server(*dict.fromkeys(names), validity=validity)
    if options.ca_out is not None:
        _write_file(options.ca_out, authority.certificate_pem)
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
    service_name = f"{service}.{namespace}.svc"
    if not is_subdomain(service_name):
        raise CertificateOptionError(f"{service_name} is not a valid DNS name")
    return (service_name, f"{service_name}.cluster.local", f"{service}.{namespace}", service)


def _write_file(file: Path, content: bytes) -> None:
    try:
        file.write_bytes(content)
    except OSError as error:
        raise CertificateOptionError(f"cannot write {file}: {error.strerror}") from error


def _parse_name(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        pass
    name = text.lower()
    if not is_subdomain(name.removeprefix("*.")):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a DNS name nor an IP address")
    return name


def _parse_object_name(text: str) -> str:
    if not is_subdomain(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a valid object name")
    return text


def _parse_days(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 3650:  # noqa: PLR2004 - ten years
        raise argparse.ArgumentTypeError("must be a number of days from 1 to 3650")
    return int(text)


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
