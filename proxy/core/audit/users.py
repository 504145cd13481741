"""Users in audit events: caller, impersonated user, and wanted user of a denied request."""

from collections.abc import Sequence

from proxy.core.gocompat.json import go_json
from proxy.core.gocompat.quote import TRUNCATION_MARKER
from proxy.core.truncation import (
    BoundedText,
    encoded_size,
    json_size,
    truncate_to_size,
    truncated_value,
)
from proxy.core.userinfo import Extra, UserInfo

_MEMBER_BYTES = 64
"""The four member names and the punctuation between them."""
_ITEM_BYTES = 3
"""Two quotes and a comma."""


def user_text(user: UserInfo | None, *, path: str, max_bytes: int) -> BoundedText:
    """Return a user as JSON of at most `most` bytes. No user is an empty object.

    A longer user is truncated: name, uid, groups and extras get a quarter each. Each group and
    each extra is recorded whole or not at all, so that no part of a name passes for another name.
    """
    if user is None:
        return BoundedText("{}")
    text = go_json(_user_members(user))
    if encoded_size(text) <= max_bytes:
        return BoundedText(text)
    return _truncate_user(user, path, (max_bytes - _MEMBER_BYTES) // 4)


def _user_members(user_info: UserInfo) -> dict[str, object]:
    user = {
        "username": user_info.name,
        "uid": user_info.uid,
        "groups": list(user_info.groups),
        "extra": {key: list(values) for key, values in user_info.extra},
    }
    return {name: value for name, value in user.items() if value}


def _truncate_user(user: UserInfo, path: str, most: int) -> BoundedText:
    whole = _user_members(user)
    kept: dict[str, object] = {
        "username": _truncate_text(user.name, most),
        "uid": _truncate_text(user.uid, most),
        "groups": _first_groups(user.groups, most),
        "extra": _first_extras(user.extra, most),
    }
    kept = {name: value for name, value in kept.items() if value}
    cuts = tuple(
        truncated_value(f"{path}.{name}", value if isinstance(value, str) else go_json(value))
        for name, value in whole.items()
        if kept[name] != value
    )
    return BoundedText(go_json(kept), cuts)


def _truncate_text(text: str, most: int) -> str:
    most -= _ITEM_BYTES
    return text if json_size(text) <= most else truncate_to_size(text, most)


def _first_groups(groups: Sequence[str], most: int) -> list[str]:
    """Return the groups that fit, and the marker in place of the others."""
    kept: list[str] = []
    for group in groups:
        most -= json_size(group) + _ITEM_BYTES
        if most < len(TRUNCATION_MARKER) + _ITEM_BYTES:
            return [*kept, TRUNCATION_MARKER]
        kept.append(group)
    return kept


def _first_extras(extra: Extra, most: int) -> dict[str, list[str]]:
    """Return the extras that fit, and the marker in place of the others."""
    kept: dict[str, list[str]] = {}
    for key, values in extra:
        most -= encoded_size(go_json({key: list(values)}))
        if most < 2 * (len(TRUNCATION_MARKER) + _ITEM_BYTES):
            return {**kept, TRUNCATION_MARKER: [TRUNCATION_MARKER]}
        kept[key] = list(values)
    return kept
