"""Domains and email addresses in certificates, as Go tells them from other text."""

import re

_PRINTABLE = re.compile("[!-~]+")
# Go takes a backslash before any character outside quotes, and before these inside.
_MAILBOX = re.compile(
    r"(?:\"(?P<quoted>(?:[\x01-\x08\x0b\x0c\x0e-!#-\[\]-\x7f]++|\\[\x01-\x09\x0b\x0c\x0e-\x7f])*+)\""
    r"|(?P<atoms>(?:[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]++|\\.)++)"
    r")@(?P<domain>.*)",
    re.DOTALL,
)
# For a backslash that is escaped itself. No certificate has it: its names are ASCII.
_BACKSLASH = "\uffff"


def is_domain(name: str, *, is_constraint: bool) -> bool:
    """Return whether Go takes this for a domain name; the empty one is."""
    if not name:
        return True
    if name.endswith("."):
        return False
    if is_constraint and name.startswith("."):
        name = name[1:]
    has_empty_label = name.startswith(".") or ".." in name
    return not has_empty_label and _PRINTABLE.fullmatch(name) is not None


def mailbox(address: str) -> tuple[str, str] | None:
    """Return the local part and the domain of an email address, None if Go takes it for none."""
    parts = _MAILBOX.fullmatch(address)
    if parts is None or not is_domain(parts["domain"], is_constraint=False):
        return None
    if parts["quoted"] is not None:
        return _unescaped(parts["quoted"]), parts["domain"]
    local = _unescaped(parts["atoms"])
    if local.startswith(".") or local.endswith(".") or ".." in local:
        return None
    return local, parts["domain"]


def _unescaped(text: str) -> str:
    return text.replace("\\\\", _BACKSLASH).replace("\\", "").replace(_BACKSLASH, "\\")
