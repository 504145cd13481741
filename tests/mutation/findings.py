"""The guards of the findings of security reviews, and how each is taken away.

Each page of docs/security/ names what its guards protect from.
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from aiohttp.client_proto import ResponseHandler
from cryptography.x509 import load_der_x509_certificate
from opentelemetry.trace import Span

from proxy.admin import metrics_endpoint, server
from proxy.admin.connections import AdminLimits
from proxy.authentication import ca_bundle, token_authenticator
from proxy.authentication.x509 import (
    keys,
    name_constraints,
    names,
    path,
)
from proxy.authentication.x509.certificate import Certificate
from proxy.authentication.x509.keys import KeyKind, PublicKey
from proxy.authorization import access_review
from proxy.concurrency.circuit_breaker import FAILURES_TO_SUSPECT, CircuitBreaker
from proxy.concurrency.rate_limit import RateLimit
from proxy.core.audit import annotations, event
from proxy.core.audit.limits import EventLimits
from proxy.core.gocompat import duration
from proxy.core.http import status, websocket
from proxy.core.userinfo import AuthenticationResult
from proxy.kubeclient import bounded_session
from proxy.runtime import proxy as proxy_module
from proxy.serving import request_head_reader
from proxy.serving.client_connection import ClientConnection
from proxy.serving.limits import response_progress
from proxy.serving.limits.connections import ConnectionLimiter
from proxy.serving.limits.unauthenticated_input import UnauthenticatedInputScheduler
from proxy.serving.limits.unauthenticated_memory import (
    MemoryReservation,
    UnauthenticatedMemoryBudget,
)
from proxy.serving.request_head_reader import RequestHeadReader
from proxy.telemetry import logs
from proxy.telemetry.tracing import Tracing, _PendingRequest
from proxy.upstream import auth_errors, connection
from proxy.upstream.credentials.credentials import CredentialState
from proxy.upstream.credentials.token_request import TokenRequestSource
from proxy.upstream.identity.account import Clocks, ProxyAccount
from proxy.upstream.identity.monitor import IdentityMonitor
from proxy.wire import tls_client_flight, tls_server
from proxy.wire.http1 import message as head
from proxy.wire.http1 import response_parser
from proxy.wire.tls_server import ServerTLS
from tests.mutation.guard import ANY_NUMBER, Guard
from tests.support.fault_injection import put


def _targets_have_any_length() -> None:
    put(request_head_reader, "check_target_length", lambda method, target, *, max_bytes: None)


def _header_lines_have_any_length() -> None:
    put(request_head_reader, "check_header_lines", lambda head, *, most_bytes: None)


def _unfinished_heads_are_read_whole() -> None:
    put(RequestHeadReader, "_check_incomplete", lambda reader, searched, limits: None)


def _everything_is_read() -> None:
    put(status, "_MAX_CLAUSES", ANY_NUMBER)
    put(status, "_MAX_ACCEPT_LENGTH", ANY_NUMBER)
    put(duration, "_MAX_DURATION_LENGTH", ANY_NUMBER)
    put(websocket, "_MAX_PROTOCOLS", ANY_NUMBER)
    put(head, "_MAX_CONNECTION_OPTIONS", ANY_NUMBER)


def _the_admin_port_has_no_limits() -> None:
    endless = AdminLimits(connections=10**6, head_seconds=1e6, idle_seconds=1e6)
    put(server, "admin_limits", lambda settings: endless)


def _every_scrape_is_rendered() -> None:
    put(metrics_endpoint, "_SECONDS_PER_PAGE", 0.0)


def _scrapers_are_not_rationed() -> None:
    put(metrics_endpoint, "_FAILURES", RateLimit(per_second=1e9, burst=1e9))


def _open_files_are_not_counted() -> None:
    put(proxy_module, "fit_open_files", lambda limits, *, reserved: limits)


def _failures_open_the_breaker() -> None:
    def failed(breaker: CircuitBreaker) -> None:
        breaker._failures += 1
        if breaker._failures >= FAILURES_TO_SUSPECT:
            breaker._set_open(is_open=True)

    put(CircuitBreaker, "failed", failed)


def _refused_reviews_are_failures() -> None:
    put(access_review, "REVIEW_TOO_LARGE", frozenset())


def _reviews_have_any_size() -> None:
    put(access_review, "is_review_larger_than", lambda check, max_bytes: False)


def _every_denial_is_the_api_servers() -> None:
    put(auth_errors, "is_from_api_server", lambda action, *, is_upgrade: True)


def _new_credentials_are_not_introduced() -> None:
    async def introduce(
        knowledge: IdentityMonitor, account: ProxyAccount, state: CredentialState
    ) -> None:
        """Let it be used at once."""

    put(IdentityMonitor, "resolve_new_credential", introduce)


def _interim_heads_are_not_counted() -> None:
    put(connection, "MAX_INTERIM_HEADS", ANY_NUMBER)


def _lines_of_answers_are_not_counted() -> None:
    put(response_parser, "MAX_HEADERS", ANY_NUMBER)


def _any_extension_will_do() -> None:
    def is_usable(certificate: Certificate, now: datetime) -> bool:
        return certificate.not_before <= now <= certificate.not_after

    put(path, "_is_usable_now", is_usable)


def _any_type_of_text_will_do() -> None:
    read, universal_string = names.decode_text, 28

    def text(tag: int, value: bytes) -> str:
        return value.decode("utf-32-be") if tag == universal_string else read(tag, value)

    put(names, "decode_text", text)


def _any_curve_will_do() -> None:
    put(keys, "_ecdsa_key", lambda point, parameters: PublicKey(KeyKind.ECDSA, verifies=True))


def _any_key_may_sign() -> None:
    def is_signed_by(one: Certificate, signer: Certificate) -> bool:
        certificate, issuer = map(load_der_x509_certificate, (one.der, signer.der))
        certificate.verify_directly_issued_by(issuer)
        return True

    put(path, "_may_sign", lambda signer, one: True)
    put(ca_bundle, "is_signed_by", is_signed_by)


def _any_name_may_be_signed() -> None:
    put(path, "check_name_constraints", lambda path: None)


def _handshakes_have_no_size() -> None:
    def receive(tls: ServerTLS, ciphertext: bytes) -> None:
        tls_server._lib.BIO_write(tls._incoming, ciphertext, len(ciphertext))

    put(ServerTLS, "receive", receive)


def _any_key_is_verified_with() -> None:
    put(tls_server, "_is_cheap", lambda key: True)


def _signatures_are_not_counted() -> None:
    put(path, "_EXTRA_SIGNATURES", 1000)
    put(path, "_MAX_SIGNATURES", 1000)


def _names_are_not_counted() -> None:
    put(ca_bundle, "_MAX_ITEMS", 100_000)


def _comparisons_are_not_counted() -> None:
    put(name_constraints, "_MAX_COMPARISONS", ANY_NUMBER)


def _any_key_is_decoded() -> None:
    put(tls_client_flight, "_check_key", lambda certificate: None)


def _records_without_data_are_free() -> None:
    put(tls_server, "_MAX_RECORDS_WITHOUT_DATA", ANY_NUMBER)


def _events_have_no_size() -> None:
    most = 1 << 30
    unlimited = EventLimits(
        uri_bytes=most, user_bytes=most, message_bytes=most, unauthenticated_bytes=most
    )
    put(proxy_module, "event_limits", lambda settings: unlimited)
    put(event, "OBJECT_BYTES", most)
    put(annotations, "ANNOTATION_BYTES", most)


def _lines_have_no_size() -> None:
    put(logs, "MAX_LINE_BYTES", 1 << 30)


def _waiting_heads_are_free() -> None:
    put(ClientConnection, "_reserve_waiting", lambda connection: None)


def _refusals_nest() -> None:
    def change(budget: UnauthenticatedMemoryBudget, holding: MemoryReservation, count: int) -> None:
        budget._rank(holding, count)
        while (full := budget._exceeded(holding.origin)) is not None:
            budget._reject(full[0].largest(), full[1])

    put(UnauthenticatedMemoryBudget, "resize", change)


def _held_handshakes_stay() -> None:
    put(ClientConnection, "_drop_queued", lambda connection: None)


def _tokens_have_no_size() -> None:
    original = token_authenticator.CachedTokenAuthenticator.authenticate

    async def authenticate(
        tokens: token_authenticator.CachedTokenAuthenticator, token: bytes, *, address: str
    ) -> AuthenticationResult:
        tokens._token_bytes = len(token)
        return await original(tokens, token, address=address)

    put(token_authenticator.CachedTokenAuthenticator, "authenticate", authenticate)


def _nobody_is_evicted() -> None:
    put(ConnectionLimiter, "_evict_first", lambda door, order, reason: False)


def _responses_may_stall() -> None:
    put(response_progress, "_needs_progress", lambda exchange: False)


def _every_caller_continues_traces() -> None:
    original = Tracing._span_of

    def span_of(tracing: Tracing, known: _PendingRequest, caller_groups: Sequence[str]) -> Span:
        tracing._trusted_groups = frozenset(("everyone",))
        return original(tracing, known, ("everyone",))

    put(Tracing, "_span_of", span_of)


def _answers_to_own_calls_have_any_size() -> None:
    put(bounded_session, "_BoundedResponses", _any_responses)


def _any_responses(*, answer_bytes: int, loop: asyncio.AbstractEventLoop) -> ResponseHandler:
    return ResponseHandler(loop)


def _unauthenticated_input_takes_any_time() -> None:
    put(UnauthenticatedInputScheduler, "has_time", property(lambda turns: True))


def _tokens_end_by_the_wall_clock() -> None:
    original = TokenRequestSource.__init__

    def begin(source: TokenRequestSource, *args: Any, clocks: Clocks, **options: Any) -> None:
        wall = Clocks(monotonic=lambda: clocks.now().timestamp(), now=clocks.now)
        original(source, *args, clocks=wall, **options)

    put(TokenRequestSource, "__init__", begin)


FINDINGS = {
    # The page docs/security/algorithmic-complexity.md names these findings.
    17: Guard("what costs more than its bytes is refused", _everything_is_read),
    18: Guard(
        "long targets are refused",
        _targets_have_any_length,
        (
            "tests/scenarios/regressions/test_reading_costs.py"
            "::test_17_costly_requests_are_refused_or_answered_at_once",
        ),
    ),
    19: Guard(
        "long header lines are refused",
        _header_lines_have_any_length,
        (
            "tests/scenarios/regressions/test_reading_costs.py"
            "::test_17_costly_requests_are_refused_or_answered_at_once",
        ),
    ),
    24: Guard("the rest of a head that is refused is not read", _unfinished_heads_are_read_whole),
    # Memory before authentication and slot starvation have a page each in docs/security/.
    20: Guard("heads that wait for a caller are counted", _waiting_heads_are_free),
    21: Guard("tokens have a size", _tokens_have_no_size),
    22: Guard("silent connections are evicted", _nobody_is_evicted),
    23: Guard("responses need progress", _responses_may_stall),
    25: Guard(
        "a refusal causes no other",
        _refusals_nest,
        (
            "tests/serving/limits/test_unauthenticated_memory.py"
            "::test_refusals_that_let_nothing_go_end_and_do_not_deepen_the_stack",
        ),
    ),
    26: Guard(
        "handshakes that wait go with their connection",
        _held_handshakes_stay,
        (
            "tests/serving/limits/test_unauthenticated_input.py"
            "::test_bytes_of_a_handshake_that_waits_are_let_go_with_its_connection",
        ),
    ),
    # The page docs/security/log-amplification.md names these findings.
    30: Guard("an audit event has a size", _events_have_no_size),
    31: Guard("a log line has a size", _lines_have_no_size),
    # The page docs/security/admin-port.md names these findings.
    40: Guard("the admin port has few places", _the_admin_port_has_no_limits),
    41: Guard("metrics are rendered once a second", _every_scrape_is_rendered),
    42: Guard("bad tokens of scrapers are rationed", _scrapers_are_not_rationed),
    43: Guard("clients fit the open files", _open_files_are_not_counted),
    # The page docs/security/breaker-abuse.md names these findings.
    51: Guard(
        "a probe opens the breaker, no caller does",
        _failures_open_the_breaker,
        (
            "tests/scenarios/test_breaker_abuse.py"
            "::test_reviews_that_fail_for_one_caller_open_no_breaker",
        ),
    ),
    52: Guard(
        "a review that is refused is its caller's",
        _refused_reviews_are_failures,
        (
            "tests/scenarios/test_breaker_abuse.py"
            "::test_a_review_that_the_api_server_refuses_is_the_callers_400",
        ),
    ),
    53: Guard(
        "a review has a size",
        _reviews_have_any_size,
        (
            "tests/scenarios/test_breaker_abuse.py"
            "::test_a_review_that_would_be_too_large_is_never_sent",
        ),
    ),
    54: Guard(
        "only the API server denies our account something",
        _every_denial_is_the_api_servers,
        (
            "tests/scenarios/test_proxy_denials.py"
            "::test_f11_a_backend_that_denies_something_to_the_proxy_forges_no_error_of_ours",
        ),
    ),
    55: Guard(
        "a new credential is introduced before it is used",
        _new_credentials_are_not_introduced,
        (
            "tests/scenarios/test_credential_rotation.py"
            "::test_f13_a_new_credential_forwards_nothing_before_its_name_is_guarded",
        ),
    ),
    # The page docs/security/backends.md names these findings.
    71: Guard(
        "an answer has few interim heads",
        _interim_heads_are_not_counted,
        (
            "tests/upstream/test_connection.py"
            "::test_an_answer_with_too_many_interim_heads_is_broken_off",
        ),
    ),
    72: Guard(
        "the head of an answer has a bounded number of lines",
        _lines_of_answers_are_not_counted,
        (
            "tests/wire/http1/test_response_parser.py::test_a_response_head_has_a_bounded_number_of_lines",
        ),
    ),
    # The page docs/security/trusted-peers.md names these findings.
    81: Guard(
        "traces of strangers are not continued",
        _every_caller_continues_traces,
        (
            "tests/scenarios/test_hostile_traces.py"
            "::test_a_client_that_is_not_trusted_forces_no_span",
        ),
    ),
    82: Guard(
        "answers to own calls have a size",
        _answers_to_own_calls_have_any_size,
        (
            "tests/audit/backends/test_webhook_hostile_receiver.py"
            "::test_a_flood_is_cut_off_soon_and_the_event_is_tried_again",
        ),
    ),
    83: Guard(
        "input before authentication has a slice of each loop iteration",
        _unauthenticated_input_takes_any_time,
        (
            "tests/serving/limits/test_unauthenticated_input.py"
            "::test_a_newcomer_does_not_wait_behind_a_flood_of_another_address",
            "tests/serving/limits/test_unauthenticated_input.py"
            "::test_requests_before_authentication_wait_for_the_slice_and_others_do_not",
        ),
    ),
    84: Guard(
        "a token is renewed by the monotonic clock",
        _tokens_end_by_the_wall_clock,
        (
            "tests/upstream/credentials/test_token_request.py"
            "::test_a_step_of_the_wall_clock_neither_keeps_nor_ends_a_token",
        ),
    ),
    73: Guard(
        "comparisons with name constraints are counted",
        _comparisons_are_not_counted,
        (
            "tests/authentication/x509/test_cost.py"
            "::test_no_name_constraints_cost_more_than_five_milliseconds",
        ),
    ),
    # The page docs/security/client-certificates.md names these findings.
    60: Guard("critical extensions are known", _any_extension_will_do),
    61: Guard("names are texts that Go reads", _any_type_of_text_will_do),
    62: Guard("curves are those of Go", _any_curve_will_do),
    63: Guard("keys that sign are those of Go", _any_key_may_sign),
    64: Guard("CAs sign the names they may", _any_name_may_be_signed),
    65: Guard("a handshake has a size", _handshakes_have_no_size),
    66: Guard("clients' keys cost little", _any_key_is_verified_with),
    67: Guard("signatures are counted", _signatures_are_not_counted),
    68: Guard("names of a chain are counted", _names_are_not_counted),
    69: Guard(
        "a key is looked at before OpenSSL decodes it",
        _any_key_is_decoded,
        (
            "tests/wire/test_tls_client_flight.py"
            "::test_key_that_go_does_not_take_ends_the_handshake_at_once",
        ),
    ),
    70: Guard(
        "records without data are counted",
        _records_without_data_are_free,
        ("tests/wire/test_tls_client_flight.py::test_flood_of_key_updates_is_cut_off",),
    ),
}
