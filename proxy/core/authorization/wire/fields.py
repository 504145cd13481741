"""Strict reading of JSON documents, with the errors of Kubernetes' API fields.

Members that are not known are ignored, as kube-apiserver ignores them.
"""

import json
from collections.abc import Mapping, Sequence
from typing import NoReturn

from proxy.core.authorization.decision import NO_ERRORS, Errors
from proxy.core.gocompat.quote import go_quote

JSONObject = Mapping[str, object]

MUTUALLY_EXCLUSIVE = "allowed and denied are mutually exclusive"


class InvalidReview(Exception):
    """A document that is not valid. It decides nothing."""


def forbidden(path: str, detail: str) -> NoReturn:
    """Raise InvalidReview for a member that must not be set here."""
    raise InvalidReview(f"{path}: Forbidden: {detail}")


def invalid(path: str, value: object, detail: str) -> NoReturn:
    """Raise InvalidReview for a value."""
    shown = go_quote(value) if isinstance(value, str) else json.dumps(value, default=str)
    raise InvalidReview(f"{path}: Invalid value: {shown}: {detail}")


def required(path: str, detail: str = "") -> NoReturn:
    """Raise InvalidReview for a member that is missing."""
    raise InvalidReview(f"{path}: Required value{': ' + detail if detail else ''}")


def not_supported(path: str, value: str, supported: Sequence[str]) -> NoReturn:
    """Raise InvalidReview for an unknown value of an enumeration."""
    values = ", ".join(map(go_quote, supported))
    raise InvalidReview(f"{path}: Unsupported value: {go_quote(value)}: supported values: {values}")


def too_many(path: str, count: int, limit: int) -> NoReturn:
    """Raise InvalidReview for a list that is too long."""
    raise InvalidReview(f"{path}: Too many: {count}: must have at most {limit} items")


def object_of(value: object, path: str) -> JSONObject:
    """Return a value that must be an object."""
    if not isinstance(value, dict):
        raise InvalidReview(f"{path}: Invalid value: must be an object")
    return value


def member_object(parent: JSONObject, name: str, path: str) -> JSONObject | None:
    """Return a member that must be an object; None if it is absent or null."""
    value = parent.get(name)
    return None if value is None else object_of(value, _joined(path, name))


def member_list(
    parent: JSONObject, name: str, path: str, *, limit: int | None = None
) -> list[object] | None:
    """Return a member that must be a list; None if it is absent or null."""
    value = parent.get(name)
    if value is None:
        return None
    if not isinstance(value, list):
        raise InvalidReview(f"{_joined(path, name)}: Invalid value: must be a list")
    if limit is not None and len(value) > limit:
        too_many(_joined(path, name), len(value), limit)
    return value


def member_text(parent: JSONObject, name: str, path: str) -> str:
    """Return a member that must be a text; "" if it is absent or null."""
    value = parent.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidReview(f"{_joined(path, name)}: Invalid value: must be a string")
    return value


def member_bool(parent: JSONObject, name: str, path: str) -> bool:
    """Return a member that must be a boolean; False if it is absent or null."""
    value = parent.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise InvalidReview(f"{_joined(path, name)}: Invalid value: must be a boolean")
    return value


def member_errors(parent: JSONObject, path: str) -> Errors:
    """Return `evaluationError` as an error; an empty text is none."""
    text = member_text(parent, "evaluationError", path)
    return (text,) if text else NO_ERRORS


def without_empty(members: JSONObject) -> dict[str, object]:
    """Return an object without members that are empty, which Kubernetes omits."""
    return {name: value for name, value in members.items() if value not in ("", [], None)}


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
