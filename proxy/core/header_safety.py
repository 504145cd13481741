"""Which texts survive a journey through HTTP headers and JSON unchanged.

What is authorized travels as JSON and what is forwarded travels as a header. A text that changes
on either way would be checked as one name and used as another, so it is refused, never repaired.
"""

import re

from proxy.core.errors import Forbidden
from proxy.core.identity import ANONYMOUS, UNAUTHENTICATED, Identity

# Tab is legal inside a header value, but no name needs one and not every hop keeps it.
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def text_fault(text: str) -> str | None:
    """Return what would change a text on its way upstream, or None when nothing would."""
    if text.isascii() and text.isprintable():
        return "has outer blanks" if text != text.strip(" ") else None
    if _CONTROL.search(text):
        return "has control characters"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "is not valid UTF-8"
    return "has outer blanks" if text != text.strip(" ") else None


def key_fault(key: str) -> str | None:
    """Return what is wrong with an extra key, or None. Blanks are safe: they travel encoded."""
    return text_fault(key.replace(" ", "_"))


def check_caller(identity: Identity) -> None:
    """Refuse a caller that upstream would take for another one, or put into another group."""
    if identity.name == ANONYMOUS and UNAUTHENTICATED not in identity.groups:
        # The API server adds the group to whoever is impersonated under this name.
        raise Forbidden(
            f"an identity named {ANONYMOUS} without {UNAUTHENTICATED} cannot be forwarded"
        )
    check_header_safe(identity)


def check_header_safe(identity: Identity) -> None:
    """Refuse an identity that upstream would read differently from how it was authenticated.

    An empty group or extra value survives as an empty header line; an empty name does not, and an
    extra key without values has no line to travel on.
    """
    if not identity.name:
        raise Forbidden("an identity without a user name cannot be forwarded")
    if _is_plain(identity):
        return
    _refuse(text_fault(identity.name), "user name")
    _refuse(text_fault(identity.uid), "uid")
    for group in identity.groups:
        _refuse(text_fault(group), "group")
    for key, values in identity.extra:
        _refuse(key_fault(key) if values else "has no values", "extra key")
        for value in values:
            _refuse(text_fault(value), "extra value")


def _is_plain(identity: Identity) -> bool:
    """Tell in one look that nothing can be wrong, which is so for nearly everyone."""
    texts = [identity.name, identity.uid, *identity.groups]
    for key, values in identity.extra:
        if not values:
            return False
        texts += (key, *values)
    joined = "".join(texts)
    return joined.isascii() and joined.isprintable() and " " not in joined


def _refuse(fault: str | None, what: str) -> None:
    # The text itself stays out of the message: it is what cannot be carried faithfully.
    if fault is not None:
        raise Forbidden(f"an identity whose {what} {fault} cannot be forwarded")
