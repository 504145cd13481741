"""The id that one request carries through our log and the cluster's."""

from collections.abc import Sequence

from proxy.core.errors import BadRequest

_LONGEST_ADOPTED = 64
_NAME = b"audit-id"
_NAME_LENGTH = len(_NAME)


def adopted_audit_id(headers: Sequence[tuple[bytes, bytes]]) -> bytes | None:
    """Return the client's own id if it is fit for a header and a log; else one must be made.

    Two ids are refused: the API server would take the first and drop the other unseen.
    """
    # Most names differ in length already, which is seen sooner.
    values = [v for name, v in headers if len(name) == _NAME_LENGTH and name.lower() == _NAME]
    if len(values) > 1:
        raise BadRequest("more than one Audit-ID header")
    if not values or not 0 < len(values[0]) <= _LONGEST_ADOPTED:
        return None
    return values[0] if values[0].isascii() and values[0].decode().isprintable() else None


def new_audit_id(random: bytes) -> bytes:
    """Return sixteen random bytes as a UUID of version 4, six bits of them replaced."""
    digits = random.hex()
    variant = "89ab"[random[8] >> 4 & 3]
    text = f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
    return text.encode()
