"""The rules that ids, types and authorizer names must satisfy, and the limits of a decision.

`RULES_1_38` is the default. `RULES_1_37` is what a kube-apiserver 1.37 applies. The limits of
depth, members and total size are the project's own: kube-apiserver has none.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from proxy.core.authorization.decision import Condition
from proxy.core.gocompat.quote import go_quote
from proxy.core.userinfo import MAX_SUBDOMAIN_LENGTH, SUBDOMAIN

MAX_CONDITIONS = 128
"""The maximum number of conditions in the three lists of a map together."""

_NAME_PATTERN = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_NAME = re.compile(_NAME_PATTERN)
_MAX_NAME_LENGTH = 63
_NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an"
    " alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for"
    f" validation is '{_NAME_PATTERN}')"
)
_LABEL_PATTERN = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.',"
    " and must start and end with an alphanumeric character (e.g. 'example.com', regex used for"
    rf" validation is '{_LABEL_PATTERN}(\.{_LABEL_PATTERN})*')"
)
_MAX_KEY_PARTS = 2


@dataclass(frozen=True, slots=True)
class AlgebraRules:
    """A rule set of the decision algebra."""

    needs_prefix: bool = True
    """Whether ids and types need a domain: `acme.io/foo`."""
    reports_fields: bool = True
    """Whether an invalid id is reported as an API field error."""
    max_body_bytes: int | None = 10240
    max_description_bytes: int | None = 1024
    has_dns_names: bool = True
    """Whether the name of an authorizer must be a DNS-1123 subdomain."""
    name_word: str = "authorizerName"
    names_outcomes: bool = True
    """Whether the reason of a folded decision names what would have been possible."""
    max_depth: int | None = 8
    max_members: int | None = 64
    max_bytes: int | None = 256 * 1024
    keeps_allows_open: bool = True
    """Whether an Allow condition that is unevaluatable stays open beside one that is an error.

    kube-apiserver folds both to NoOpinion, although the open one could have allowed the request.
    To keep it open is safe: the request is allowed only if that condition is true.
    """


RULES_1_38 = AlgebraRules()
RULES_1_37 = AlgebraRules(
    needs_prefix=False,
    reports_fields=False,
    max_body_bytes=None,
    max_description_bytes=None,
    has_dns_names=False,
    name_word="conditionalAuthorizerName",
    names_outcomes=False,
)


def condition_error(condition: Condition, rules: AlgebraRules) -> str:
    """Return why a condition is invalid, without the check for repeated ids; "" if it is valid."""
    size, limit = _byte_length(condition.body), rules.max_body_bytes
    described, most = _byte_length(condition.description), rules.max_description_bytes
    if error := _key_error("id", condition.id, rules):
        return error
    if limit is not None and size > limit:
        return _size_error(f"condition {go_quote(condition.id)}", size, limit)
    if condition.type and (error := _key_error("type", condition.type, rules)):
        return error
    if most is not None and described > most:
        return _size_error(f"condition {go_quote(condition.id)} description", described, most)
    return ""


def subdomain_errors(name: str, *, unit: str = "characters") -> list[str]:
    """Return why a text is not a DNS-1123 subdomain.

    kube-apiserver has two versions of this check, whose texts differ in the unit. Both count bytes.
    """
    errors = []
    if _byte_length(name) > MAX_SUBDOMAIN_LENGTH:
        errors.append(f"must be no more than {MAX_SUBDOMAIN_LENGTH} {unit}")
    if not SUBDOMAIN.fullmatch(name):
        errors.append(_SUBDOMAIN_RULE)
    return errors


def condition_bytes(condition: Condition) -> int:
    """Return the size of the texts of a condition."""
    texts = (condition.id, condition.type, condition.body, condition.description)
    return sum(map(_byte_length, texts))


def _key_error(field: str, key: str, rules: AlgebraRules) -> str:
    errors = list(_label_key_errors(key))
    if not rules.reports_fields:
        word = "ID" if field == "id" else field
        invalid = f"invalid condition {word} {go_quote(key)}: {'; '.join(errors)}"
        return invalid if errors else ""
    if not key:
        return f"invalid condition: {field}: Required value"
    if not errors and rules.needs_prefix and "/" not in key:
        errors = ['must be a domain-prefixed key (such as "acme.io/foo")']
    texts = [f"{field}: Invalid value: {go_quote(key)}: {error}" for error in errors]
    if not texts:
        return ""
    return f"invalid condition: {texts[0] if len(texts) == 1 else '[' + ', '.join(texts) + ']'}"


def _label_key_errors(key: str) -> Iterator[str]:
    parts = key.split("/")
    if len(parts) > _MAX_KEY_PARTS:
        yield (
            f"a valid label key {_NAME_RULE} with an optional DNS subdomain prefix and '/'"
            " (e.g. 'example.com/MyName')"
        )
        return
    name = parts[-1]
    if len(parts) == _MAX_KEY_PARTS:
        prefix = parts[0]
        errors = subdomain_errors(prefix, unit="bytes") if prefix else ["must be non-empty"]
        yield from (f"prefix part {error}" for error in errors)
    if not name:
        yield "name part must be non-empty"
    elif _byte_length(name) > _MAX_NAME_LENGTH:
        yield f"name part must be no more than {_MAX_NAME_LENGTH} bytes"
    if not _NAME.fullmatch(name):
        yield f"name part {_NAME_RULE}"


def _size_error(what: str, size: int, limit: int) -> str:
    return f"{what} length {size} is larger than the maximum allowed {limit} bytes"


def _byte_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
