"""Paths from a client's certificate to an anchor, found by the rules of Go's Certificate.Verify.

Signatures are verified from the anchors downwards: with the keys of anchors first, then only with
keys that an anchor has certified. So the keys of a client without a certificate of the CA are never
used. Such a client can cause only a handful of verifications, all with keys of anchors.
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
"""Returns whether the first certificate is signed with the key of the second."""

# In addition to one per anchor: many bundles have several CAs of one name. Go stops at 100 in all.
_EXTRA_SIGNATURES = 8
_MAX_SIGNATURES = 100
_MAX_STEPS = 64
_VERSION_3 = 3


class PathError(ValueError):
    """Raised if there is no path to an anchor, or finding one takes too much work."""


def find_paths(
    chain: Sequence[Certificate],
    anchors: Sequence[Certificate],
    now: datetime,
    verifies: VerifiesSignature,
) -> Iterator[list[Certificate]]:
    """Yield paths from the first certificate to an anchor that Go accepts for clients.

    Raises PathError if that takes more signatures or steps than any real chain needs.
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
        is_for_clients = all(certificate.extensions.is_for_clients for certificate in path)
        if is_for_clients and _is_within_rules(path, budget):
            yield path


class _Signers:
    """The signers of each certificate, restricted to signers that an anchor has certified."""

    def __init__(
        self,
        chain: Sequence[Certificate],
        anchors: Sequence[Certificate],
        now: datetime,
        verifies: VerifiesSignature,
    ) -> None:
        self._verifies = verifies
        self._signatures_left = min(_EXTRA_SIGNATURES + len(anchors), _MAX_SIGNATURES)
        self._steps_left = _MAX_STEPS
        self._anchors = {anchor.der for anchor in anchors}
        self._signers: dict[bytes, list[Certificate]] = {}
        candidates = list({certificate.der: certificate for certificate in chain}.values())
        certified = [anchor for anchor in anchors if _is_usable_now(anchor, now)]
        reached: set[bytes] = set()
        while certified:
            signer = certified.pop(0)
            for certificate in candidates:
                if not self._add_signer(certificate, signer) or certificate.der in reached:
                    continue
                reached.add(certificate.der)
                # Go accepts only a certificate marked as CA as an intermediate.
                if certificate.extensions.is_ca and _is_usable_now(certificate, now):
                    certified.append(certificate)

    def paths_from(self, own: Certificate) -> Iterator[list[Certificate]]:
        """Yield every path from a certificate to an anchor within the path length constraints."""
        yield from self._extend([own])

    def _add_signer(self, certificate: Certificate, signer: Certificate) -> bool:
        """Add the signer of a certificate if it is one; return whether it is."""
        if certificate.issuer != signer.subject or not _may_sign(signer, certificate):
            return False
        if certificate.der == signer.der:
            return False
        self._signatures_left -= 1
        if self._signatures_left < 0:
            raise PathError("too many signatures to verify")
        if not self._verifies(certificate, signer):
            return False
        self._signers.setdefault(certificate.der, []).append(signer)
        return True

    def _extend(self, path: list[Certificate]) -> Iterator[list[Certificate]]:
        for signer in self._signers.get(path[-1].der, ()):
            self._steps_left -= 1
            if self._steps_left < 0:
                raise PathError("too many paths to an anchor")
            if _is_in_path(signer, path) or not _allows_path_length(signer, path):
                continue
            longer = [*path, signer]
            if signer.der in self._anchors:
                yield longer
            else:
                yield from self._extend(longer)


def _is_usable_now(certificate: Certificate, now: datetime) -> bool:
    return (
        not certificate.extensions.has_unknown_critical
        and certificate.not_before <= now <= certificate.not_after
    )


def _may_sign(signer: Certificate, certificate: Certificate) -> bool:
    """Return whether Go would verify the signature of a certificate with the signer's key."""
    extensions = signer.extensions
    if signer.version == _VERSION_3 and not extensions.has_basic_constraints:
        return False
    if extensions.has_basic_constraints and not extensions.is_ca:
        return False
    return (
        extensions.may_sign
        and signer.key.verifies
        and certificate.signature_algorithm.kind is not KeyKind.NOTHING
        and certificate.signature_algorithm.kind is signer.key.kind
    )


def _is_in_path(candidate: Certificate, path: Sequence[Certificate]) -> bool:
    """Return whether a path already has this subject, key and alternative names."""
    names = candidate.extensions.alternative_names_value
    return any(
        certificate.subject == candidate.subject
        and certificate.key_info == candidate.key_info
        and certificate.extensions.alternative_names_value == names
        for certificate in path
    )


def _allows_path_length(signer: Certificate, path: Sequence[Certificate]) -> bool:
    max_length = signer.extensions.max_path_length
    return max_length is None or len(path) - 1 <= max_length


def _is_within_rules(path: Sequence[Certificate], budget: ComparisonBudget) -> bool:
    """Return whether the names and policies of a path are acceptable.

    Stricter than Go: a certificate below an anchor that requires or maps policies is rejected.
    """
    if any(certificate.extensions.has_policy_rules for certificate in path[:-1]):
        return False
    try:
        budget.charge(path)
        check_name_constraints(path)
    except ConstraintError:
        return False
    return True
