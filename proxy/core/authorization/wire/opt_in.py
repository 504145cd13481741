"""How a SubjectAccessReview asks for conditions, and how a webhook's configuration offers them.

Dialect `seed` is that of the first draft of KEP-5681, `wip` that of the code that is being merged.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from proxy.core.authorization.wire.fields import (
    JSONObject,
    forbidden,
    invalid,
    member_list,
    member_object,
    member_text,
    not_supported,
    required,
)


class Dialect(Enum):
    """A form of conditional decisions in JSON."""

    SEED = "seed"
    WIP = "wip"


DECISION_TYPES = ("Allow", "Deny", "NoOpinion", "ConditionsMap", "Union")
"""Who handles all of these types takes conditional decisions."""

_UNCONDITIONAL_TYPES = frozenset(DECISION_TYPES[:3])
_MAX_TYPES = 32
_MODES = ("HumanReadable", "Optimized")
_VERSION = "v1alpha1"
_OPTIONS = "authorizationOptions"
_SEED_MEMBER = "conditionalAuthorization"


@dataclass(frozen=True, slots=True)
class OptIn:
    """What a review's `spec` says about conditions."""

    dialect: Dialect | None = None
    """The dialect of the answer, None for an answer without conditions."""
    mode: str = ""
    """The presentation that dialect `seed` prefers. It is a wish, not a rule."""


@dataclass(frozen=True, slots=True)
class ConditionsReviewConfig:
    """A webhook that evaluates its own conditions, and where."""

    dialect: Dialect
    context: str = ""
    """The kubeconfig context of the endpoint; empty for that of its SubjectAccessReviews."""


def parse_opt_in(spec: JSONObject, *, path: str = "spec") -> OptIn:
    """Return what a review asks for; raise InvalidReview if that is not valid."""
    seed = member_object(spec, _SEED_MEMBER, path)
    options = member_object(spec, _OPTIONS, path)
    if seed is not None and options is not None:
        forbidden(f"{path}.{_SEED_MEMBER}", f"must not be set beside {_OPTIONS}")
    if seed is not None:
        mode = member_text(seed, "mode", f"{path}.{_SEED_MEMBER}")
        if mode and mode not in _MODES:
            not_supported(f"{path}.{_SEED_MEMBER}.mode", mode, _MODES)
        return OptIn(Dialect.SEED, mode) if mode else OptIn()
    if options is None:
        return OptIn()
    handled = _handled_types(options, f"{path}.{_OPTIONS}")
    return OptIn(Dialect.WIP) if handled.issuperset(DECISION_TYPES) else OptIn()


def encode_opt_in(dialect: Dialect, *, mode: str = _MODES[0]) -> dict[str, object]:
    """Return the members of a review's `spec` that ask for conditions."""
    if dialect is Dialect.SEED:
        return {_SEED_MEMBER: {"mode": mode}}
    return {_OPTIONS: {"handledDecisionTypes": list(DECISION_TYPES)}}


def parse_conditions_review(webhook: Mapping[str, object]) -> ConditionsReviewConfig | None:
    """Return how a configured webhook evaluates conditions; None if it does not."""
    path, seed_member = "webhook", "conditionsEndpointKubeConfigContext"
    review = member_object(webhook, "conditionsReview", path)
    context = member_text(webhook, seed_member, path)
    if review is None:
        return ConditionsReviewConfig(Dialect.SEED, context) if context else None
    path += ".conditionsReview"
    if context:
        forbidden(f"webhook.{seed_member}", "must not be set beside conditionsReview")
    version = member_text(review, "version", path)
    if not version:
        required(f"{path}.version")
    if version != _VERSION:
        not_supported(f"{path}.version", version, (_VERSION,))
    return ConditionsReviewConfig(Dialect.WIP, member_text(review, "kubeConfigContextName", path))


def encode_conditions_review(config: ConditionsReviewConfig) -> dict[str, object]:
    """Return the members of a webhook's configuration."""
    if config.dialect is Dialect.SEED:
        return {"conditionsEndpointKubeConfigContext": config.context}
    context = {"kubeConfigContextName": config.context} if config.context else {}
    return {"conditionsReview": {"version": _VERSION, **context}}


def _handled_types(options: JSONObject, path: str) -> frozenset[str]:
    """Return the types that a client handles. Types that are not known are no error."""
    path += ".handledDecisionTypes"
    listed = member_list(options, "handledDecisionTypes", path.rpartition(".")[0], limit=_MAX_TYPES)
    if not listed:
        required(path)
    types: list[str] = []
    for index, one in enumerate(listed):
        if not isinstance(one, str):
            invalid(f"{path}[{index}]", one, "must be a string")
        if one in types:
            invalid(f"{path}[{index}]", one, "must not be repeated")
        types.append(one)
    handled = frozenset(types)
    if not handled.issuperset(_UNCONDITIONAL_TYPES):
        detail = "set must at least contain {Allow, Deny, NoOpinion}"
        invalid(path, sorted(handled), detail)
    return handled
