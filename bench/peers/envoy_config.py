"""Envoy's configuration for the benchmark."""

from pathlib import Path
from typing import Any

from bench.stage import CALLER, Stage
from proxy.sandbox.processes import LOOPBACK

_TYPES = "type.googleapis.com/envoy.extensions"
_UPSTREAM = "upstream"
_GROUPS = ("developers", "system:authenticated")
_IDENTITY_PREFIXES = ("impersonate-", "x-remote-")
# Above what any row opens, so that no request is rejected by a limit.
_NO_LIMIT = 65536
_NEVER = "0s"

# Envoy's own format.
Document = dict[str, Any]


def envoy_config(stage: Stage, *, serving: tuple[Path, Path]) -> Document:
    """Return a TLS listener on any free port, HTTP/1.1 on both sides, and the upstream by TLS."""
    return {
        "static_resources": {
            "listeners": [_listener(stage, serving)],
            "clusters": [_cluster(stage)],
        }
    }


def _listener(stage: Stage, serving: tuple[Path, Path]) -> Document:
    certificate, key = (str(file) for file in serving)
    return {
        "name": "clients",
        "address": _address(LOOPBACK, 0),
        "filter_chains": [
            {
                "transport_socket": _typed(
                    "tls",
                    "transport_sockets.tls.v3.DownstreamTlsContext",
                    common_tls_context={
                        "alpn_protocols": ["http/1.1"],
                        "tls_certificates": [
                            {
                                "certificate_chain": {"filename": certificate},
                                "private_key": {"filename": key},
                            }
                        ],
                    },
                ),
                "filters": [_connection_manager(stage)],
            }
        ],
    }


def _connection_manager(stage: Stage) -> Document:
    return _typed(
        "http",
        "filters.network.http_connection_manager.v3.HttpConnectionManager",
        stat_prefix="clients",
        codec_type="HTTP1",
        use_remote_address=True,
        generate_request_id=False,
        stream_idle_timeout=_NEVER,
        http_filters=[
            _without_identity(),
            _typed("router", "filters.http.router.v3.Router", suppress_envoy_headers=True),
        ],
        route_config={
            "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": _routes(stage)}]
        },
    )


def _without_identity() -> Document:
    """Remove the client's identity headers, before the route sets them."""
    return _typed(
        "identity",
        "filters.http.header_mutation.v3.HeaderMutation",
        mutations={
            "request_mutations": [
                {"remove_on_match": {"key_matcher": {"prefix": prefix, "ignore_case": True}}}
                for prefix in _IDENTITY_PREFIXES
            ]
        },
    )


def _routes(stage: Stage) -> list[Document]:
    """Forward requests with the valid token, as its user, and reject the rest."""
    valid = f"Bearer {stage.client_token.value}"
    return [
        {
            "match": {
                "prefix": "/",
                "headers": [{"name": "authorization", "string_match": {"exact": valid}}],
            },
            "route": {"cluster": _UPSTREAM, "timeout": _NEVER},
            "request_headers_to_add": [
                _header("authorization", f"Bearer {stage.own_token.value}"),
                _header("impersonate-user", CALLER),
                *(_header("impersonate-group", group, is_added=True) for group in _GROUPS),
            ],
        },
        {"match": {"prefix": "/"}, "direct_response": {"status": 401}},
    ]


def _header(name: str, value: str, *, is_added: bool = False) -> Document:
    action = "APPEND_IF_EXISTS_OR_ADD" if is_added else "OVERWRITE_IF_EXISTS_OR_ADD"
    return {"header": {"key": name, "value": value}, "append_action": action}


def _cluster(stage: Stage) -> Document:
    host, _, port = stage.address_of(_UPSTREAM).partition(":")
    endpoint = {"endpoint": {"address": _address(host, int(port))}}
    return {
        "name": _UPSTREAM,
        "type": "STATIC",
        "load_assignment": {
            "cluster_name": _UPSTREAM,
            "endpoints": [{"lb_endpoints": [endpoint]}],
        },
        "circuit_breakers": {
            "thresholds": [
                {
                    "max_connections": _NO_LIMIT,
                    "max_pending_requests": _NO_LIMIT,
                    "max_requests": _NO_LIMIT,
                }
            ]
        },
        "transport_socket": _typed(
            "tls",
            "transport_sockets.tls.v3.UpstreamTlsContext",
            common_tls_context={
                # As all other contestants; Envoy's upstream default is at most TLS 1.2.
                "tls_params": {"tls_maximum_protocol_version": "TLSv1_3"},
                "validation_context": {
                    "trusted_ca": {"filename": str(stage.authority_file)},
                    "match_typed_subject_alt_names": [
                        {"san_type": "IP_ADDRESS", "matcher": {"exact": host}}
                    ],
                },
            },
        ),
    }


def _address(host: str, port: int) -> Document:
    return {"socket_address": {"address": host, "port_value": port}}


def _typed(name: str, kind: str, **fields: object) -> Document:
    return {"name": name, "typed_config": {"@type": f"{_TYPES}.{kind}", **fields}}
