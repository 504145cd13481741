"""Secrets that must turn up nowhere, and where they did."""

import base64
import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

# Whoever has so many characters of a secret in a row has too many.
_FRAGMENT = 16
_DIGEST_PREFIX = 12


@dataclass(frozen=True, slots=True)
class Canary:
    """One secret, under a name to tell it by."""

    name: str
    value: str

    def forms(self) -> set[str]:
        """Return fragments of the secret in every form in which it might be told."""
        raw = self.value.encode()
        # As part of a longer text base64 may start at any of three places.
        shifted = [base64.b64encode(b"\0" * shift + raw).decode()[4:-4] for shift in range(3)]
        whole = [self.value, quote(self.value, safe=""), raw.hex(), *shifted]
        whole += [text.translate(str.maketrans("+/", "-_")) for text in shifted]
        digests = [hashlib.new(kind, raw) for kind in ("md5", "sha1", "sha256", "sha512")]
        prefixes = [one.hexdigest()[:_DIGEST_PREFIX] for one in digests]
        prefixes += [base64.b64encode(one.digest()).decode()[:_DIGEST_PREFIX] for one in digests]
        return {part for text in whole for part in _fragments(text)} | set(prefixes)


def new_canary(name: str) -> Canary:
    """Return a secret that nobody has seen before."""
    return Canary(name, f"canary{secrets.token_urlsafe(32)}")


def found(canaries: list[Canary], sinks: Mapping[str, str]) -> list[str]:
    """Return which secrets turned up where."""
    return [
        f"{canary.name} in {sink}"
        for canary in canaries
        for sink, text in sinks.items()
        if any(form in text for form in canary.forms())
    ]


def _fragments(text: str) -> list[str]:
    return [text[start : start + _FRAGMENT] for start in range(0, len(text) - _FRAGMENT + 1, 4)]
