"""Paths from a client's certificate to an anchor, found by the rules of Go's Certificate.Verify.

Signatures are verified from the anchors downwards: the keys of anchors first, then only keys for
which an anchor vouches. So a client without a certificate of the CA makes nobody use its own keys,
and has at most a handful of signatures verified, all of them with keys of anchors.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from proxy.authentication.x509.certificate import Certificate
from proxy.authentication.x509.keys import KeyKind
from proxy.authentication.x509.name_constraints import (
    ComparisonBudget,
    ConstraintError,
    check_name_constraints,
)

VerifiesSignature = Callable[[Certificate, Certificate], bool]
"""Tells whether the signature of the first certificate is by the key of the second."""

# Beside one for each anchor: many bundles hold CAs of one name. Go stops at 100 in all.
_MORE_SIGNATURES = 8
_MOST_SIGNATURES = 100
_MOST_STEPS = 64
_WITH_BASIC_CONSTRAINTS = 3


class PathError(ValueError):
    """No path to an anchor, or too much work to find one."""


def find_paths(
    chain: Sequence[Certificate],
    anchors: Sequence[Certificate],
    now: datetime,
    verifies: VerifiesSignature,
) -> Iterator[list[Certificate]]:
    """Yield paths from the first certificate to an anchor that Go accepts for clients.

    PathError if that takes more signatures or steps than any real chain needs.
    """
    own = chain[0]
    if not _is_usable_now(own, now) or not own.key.verifies:
        return
    if any(own.der == anchor.der for anchor in anchors):
        candidates: Iterator[list[Certificate]] = iter(([own],))
    else:
        signers = _Signers(chain, anchors, now, verifies)
        candidates = signers.paths_from(own)
    budget = ComparisonBudget()
    for path in candidates:
        if all(one.extensions.is_for_clients for one in path) and _is_within_rules(path, budget):
            yield path


class _Signers:
    """Which certificate is signed by which, as far as anchors vouch for the signer."""

    def __init__(
        self,
        chain: Sequence[Certificate],
        anchors: Sequence[Certificate],
        now: datetime,
        verifies: VerifiesSignature,
    ) -> None:
        self._verifies = verifies
        self._left_signatures = min(_MORE_SIGNATURES + len(anchors), _MOST_SIGNATURES)
        self._left_steps = _MOST_STEPS
        self._anchors = {one.der for one in anchors}
        self._signers: dict[bytes, list[Certificate]] = {}
        known = list({one.der: one for one in chain}.values())
        vouched = [one for one in anchors if _is_usable_now(one, now)]
        reached: set[bytes] = set()
        while vouched:
            signer = vouched.pop(0)
            for one in known:
                if not self._adds(one, signer) or one.der in reached:
                    continue
                reached.add(one.der)
                # Go takes for a CA between only what says that it is one.
                if one.extensions.is_ca and _is_usable_now(one, now):
                    vouched.append(one)

    def paths_from(self, own: Certificate) -> Iterator[list[Certificate]]:
        """Yield every path from a certificate to an anchor, path lengths respected."""
        yield from self._go_on([own])

    def _adds(self, one: Certificate, signer: Certificate) -> bool:
        """Note that a certificate is signed by another, if it is."""
        if one.issuer != signer.subject or not _may_sign(signer, one):
            return False
        if one.der == signer.der:
            return False
        self._left_signatures -= 1
        if self._left_signatures < 0:
            raise PathError("too many signatures to verify")
        if not self._verifies(one, signer):
            return False
        self._signers.setdefault(one.der, []).append(signer)
        return True

    def _go_on(self, path: list[Certificate]) -> Iterator[list[Certificate]]:
        for signer in self._signers.get(path[-1].der, ()):
            self._left_steps -= 1
            if self._left_steps < 0:
                raise PathError("too many ways to an anchor")
            if _is_already_in(signer, path) or not _is_long_enough(signer, path):
                continue
            longer = [*path, signer]
            if signer.der in self._anchors:
                yield longer
            else:
                yield from self._go_on(longer)


def _is_usable_now(certificate: Certificate, now: datetime) -> bool:
    return (
        not certificate.extensions.has_unknown_critical
        and certificate.not_before <= now <= certificate.not_after
    )


def _may_sign(signer: Certificate, one: Certificate) -> bool:
    """Return whether Go would verify the signature of a certificate with this one's key."""
    extensions = signer.extensions
    if signer.version == _WITH_BASIC_CONSTRAINTS and not extensions.has_basic_constraints:
        return False
    if extensions.has_basic_constraints and not extensions.is_ca:
        return False
    return (
        extensions.may_sign
        and signer.key.verifies
        and one.signature_algorithm.kind is not KeyKind.NOTHING
        and one.signature_algorithm.kind is signer.key.kind
    )


def _is_already_in(candidate: Certificate, path: Sequence[Certificate]) -> bool:
    """Return whether a path already has this name, key and alternative names."""
    wanted = candidate.extensions.alternative_names_value
    return any(
        one.subject == candidate.subject
        and one.key_info == candidate.key_info
        and one.extensions.alternative_names_value == wanted
        for one in path
    )


def _is_long_enough(signer: Certificate, path: Sequence[Certificate]) -> bool:
    longest = signer.extensions.max_path_length
    return longest is None or len(path) - 1 <= longest


def _is_within_rules(path: Sequence[Certificate], budget: ComparisonBudget) -> bool:
    """Return whether names and policies are in order.

    Stricter than Go: whoever demands or maps policies below an anchor is not believed.
    """
    if any(one.extensions.has_policy_rules for one in path[:-1]):
        return False
    try:
        budget.take(path)
        check_name_constraints(path)
    except ConstraintError:
        return False
    return True
