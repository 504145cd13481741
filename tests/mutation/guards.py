"""The guards of the sixteen regressions and of the findings, and how each is taken away.

A guard that has two layers loses both: what remains would otherwise hide that a test looks away.
"""

import base64
import json
import posixpath
from collections.abc import Callable, Sequence
from functools import partial
from urllib.parse import unquote_to_bytes

from proxy.authentication import token_authenticator, token_review
from proxy.authorization.access_review import KubernetesAccessReviewer
from proxy.core import forwarding
from proxy.core.audit import fragments
from proxy.core.audit.event import source_ips
from proxy.core.authorization.access_check import AccessCheck, CheckResult
from proxy.core.errors import BadRequest, UpstreamUnavailable
from proxy.core.forwarding import (
    ForwardingRules,
    HopContext,
    OutboundHeadTemplate,
    build_outbound_template,
)
from proxy.core.http import headers as http_headers
from proxy.core.http.headers import Header, HeaderList
from proxy.core.impersonation import headers as impersonation_headers
from proxy.core.impersonation import permit as admission
from proxy.core.impersonation.permit import Permit
from proxy.core.userinfo import AuthenticationResult, Caller, UserInfo
from proxy.sandbox import proxy_rbac
from proxy.telemetry import logs
from proxy.upstream import forwarder
from proxy.wire.http1.message import encode_head
from tests.mutation.algebra import ALGEBRA
from tests.mutation.findings import FINDINGS
from tests.mutation.guard import Guard
from tests.support.fault_injection import put
from tests.support.sent_heads import lines_of

_DOTS_OF_A_JWT = 2
_ANY_ID = b"-the-audit-id-"
Rewrite = Callable[[Sequence[Header], list[Header]], list[Header]]


def forward(rewrite: Rewrite) -> None:
    """Send what `rewrite` makes of the client's headers and ours, and check nothing afterwards."""

    def outbound(
        line: bytes,
        headers: HeaderList,
        permit: Permit,
        context: HopContext,
        *,
        rules: ForwardingRules,
    ) -> OutboundHeadTemplate:
        parts = build_outbound_template(line, headers, permit, context, rules=rules)
        ours = lines_of(parts.with_audit_id(_ANY_ID))
        before, found, after = encode_head(line, rewrite(headers, ours)).partition(_ANY_ID)
        # Where the line of the id is gone as well, it goes somewhere else.
        return (
            OutboundHeadTemplate(before, after)
            if found
            else OutboundHeadTemplate(before[:-2] + b"X: ", b"\r\n\r\n")
        )

    put(forwarder, "build_outbound_template", outbound)
    put(forwarder, "assert_identity_suffix", lambda ending, head: None)


def _let_pass(*prefixes: bytes) -> None:
    """Copy a client's headers with these prefixes, and check nothing afterwards."""
    known = forwarding._UNTRUSTED_PREFIXES
    kept = tuple(prefix for prefix in known if prefix not in prefixes)
    assert len(kept) < len(known)
    put(forwarding, "_UNTRUSTED_PREFIXES", kept)
    put(forwarder, "assert_identity_suffix", lambda ending, head: None)


def _ours_come_first() -> None:
    def remove_named(headers: Sequence[Header], ours: list[Header]) -> list[Header]:
        named = forwarding._connection_options(headers)
        return [line for line in ours if line[0].lower() not in named]

    forward(remove_named)


def _groups_are_added() -> None:
    def add(headers: Sequence[Header], ours: list[Header]) -> list[Header]:
        return [line for line in headers if line[0].lower() == b"impersonate-group"] + ours

    forward(add)


def _every_token_is_good() -> None:
    def owner(
        reviewer: token_review.KubernetesTokenReviewer, status: dict[str, object]
    ) -> UserInfo | None:
        return token_review._user_info(status.get("user"))

    put(token_review.KubernetesTokenReviewer, "_user", owner)


def _targets_are_tidied() -> None:
    def tidy(
        line: bytes,
        headers: HeaderList,
        permit: Permit,
        context: HopContext,
        *,
        rules: ForwardingRules,
    ) -> OutboundHeadTemplate:
        method, target, version = line.split(b" ")
        path, mark, query = target.partition(b"?")
        tidied = posixpath.normpath(unquote_to_bytes(path)) + mark + query
        changed = b" ".join((method, tidied, version))
        return build_outbound_template(changed, headers, permit, context, rules=rules)

    put(forwarder, "build_outbound_template", tidy)


def _unknown_names_are_ignored() -> None:
    original = impersonation_headers._read_line

    def read(reading: impersonation_headers._Reading, name: bytes, raw: bytes) -> None:
        known = (b"impersonate-user", b"impersonate-uid", b"impersonate-group")
        if name in known or name.startswith(b"impersonate-extra-"):
            original(reading, name, raw)

    put(impersonation_headers, "_read_line", read)


def _claims_are_believed() -> None:
    original = token_authenticator.CachedTokenAuthenticator.authenticate

    async def believe(
        tokens: token_authenticator.CachedTokenAuthenticator, token: bytes, *, address: str
    ) -> AuthenticationResult:
        if token.count(b".") != _DOTS_OF_A_JWT:
            return await original(tokens, token, address=address)
        claims = json.loads(base64.urlsafe_b64decode(token.split(b".")[1] + b"=="))
        user = UserInfo(claims["sub"], groups=("system:authenticated",))
        return AuthenticationResult(Caller(user))

    put(token_authenticator.CachedTokenAuthenticator, "authenticate", believe)


def _addresses_are_believed() -> None:
    def believed(headers: Sequence[Header], peer_address: str, *, trusts_peer: bool) -> list[str]:
        return source_ips(headers, peer_address, trusts_peer=True)

    put(forwarder, "HopContext", partial(HopContext, trusts_peer=True))
    put(fragments, "source_ips", believed)


def _no_key_is_reserved() -> None:
    put(impersonation_headers, "is_reserved_key", lambda key: False)
    put(admission, "has_reserved_key", lambda identity: False)


def _any_text_will_do() -> None:
    original = impersonation_headers._read_line

    def first_counts(reading: impersonation_headers._Reading, name: bytes, raw: bytes) -> None:
        try:
            original(reading, name, raw)
        except BadRequest as refusal:
            if "more than one" not in refusal.message:
                raise

    put(impersonation_headers, "_read_line", first_counts)
    for module in (impersonation_headers, http_headers):
        put(module, "unsafe_text_reason", lambda text: None)
        put(module, "unsafe_key_reason", lambda key: None)


def _no_answer_is_a_yes() -> None:
    original = KubernetesAccessReviewer.review

    async def review(reviewer: KubernetesAccessReviewer, check: AccessCheck) -> CheckResult:
        try:
            return await original(reviewer, check)
        except UpstreamUnavailable:
            return CheckResult(allowed=True)

    put(KubernetesAccessReviewer, "review", review)


def _nothing_is_counted() -> None:
    put(impersonation_headers, "_check_counts", lambda reading: None)


def _libraries_talk() -> None:
    put(logs, "_VERBOSE_LIBRARIES", ())


def _we_may_do_everything() -> None:
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    put(proxy_rbac, "FORWARDER_RULES", (*proxy_rbac.FORWARDER_RULES, everything))


def _underscores_are_no_hyphens() -> None:
    def let_pass(headers: Sequence[Header], ours: list[Header]) -> list[Header]:
        return [line for line in headers if b"_" in line[0]] + ours

    forward(let_pass)
    put(impersonation_headers, "_PREFIX", b"impersonate-")
    put(impersonation_headers, "_PREFIX_LENGTH", len(b"impersonate-"))


GUARDS = {
    1: Guard("ours are added last", _ours_come_first),
    2: Guard("groups are replaced", _groups_are_added),
    3: Guard("no client's impersonation crosses", partial(_let_pass, b"impersonate")),
    4: Guard("no front proxy's word crosses", partial(_let_pass, b"x-remote-")),
    5: Guard("only a plain yes is a yes", _every_token_is_good),
    6: Guard("the target is forwarded as it came", _targets_are_tidied),
    7: Guard("unknown impersonation is refused", _unknown_names_are_ignored),
    8: Guard("no token is believed unreviewed", _claims_are_believed),
    9: Guard("no peer is trusted", _addresses_are_believed),
    10: Guard("our keys are reserved", _no_key_is_reserved),
    11: Guard("texts have one meaning", _any_text_will_do),
    12: Guard("no answer is no permission", _no_answer_is_a_yes),
    13: Guard("an identity has a size", _nothing_is_counted),
    14: Guard("talkative libraries are quiet", _libraries_talk),
    15: Guard("we alone may do nothing", _we_may_do_everything),
    16: Guard("an underscore is a hyphen", _underscores_are_no_hyphens),
} | FINDINGS
GUARDS |= ALGEBRA
