"""Verbs that look like impersonation and are not, and verbs that are more than they seem."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from proxy.core.rbac.lint.finding import (
    AUTHENTICATION,
    CONSTRAINED,
    IDENTITY_VERBS,
    LEGACY_VERB,
    STAR,
    Finding,
    ManifestSource,
    RuleLocation,
    action_verb,
    action_verbs,
    identity_modes,
    listed,
)
from proxy.core.rbac.model import string_at

REQUEST_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
METHODS = ("get", "head", "post", "put", "patch", "delete", "options")
_IDENTITY_RESOURCES = frozenset({"users", "groups", "uids", "serviceaccounts", "nodes"})
_VALID = [
    *IDENTITY_VERBS,
    *(mode.action_verb(verb) for mode in CONSTRAINED for verb in REQUEST_VERBS),
]


def verb_findings(place: RuleLocation) -> Iterator[Finding]:
    """Give what is wrong with the verbs of one rule."""
    rule = place.rule
    for position, verb in enumerate(rule.verbs):
        where = f".verbs[{position}]"
        if verb == STAR:
            yield from _star(place, where)
        elif verb.lower().startswith("impersonat") and not _is_known(
            verb, has_paths=bool(rule.paths)
        ):
            yield place.error("unknown-verb", where, _why_unknown(verb), _remedy(verb))
    is_constrained = bool(identity_modes(rule) or action_verbs(rule))
    if LEGACY_VERB in rule.verbs and is_constrained:
        yield place.warning(
            "legacy-overrules",
            f".verbs[{rule.verbs.index(LEGACY_VERB)}]",
            "the legacy verb impersonate is bound to no action, so the constrained verbs beside "
            "it constrain nothing",
            "take impersonate away",
        )


def _is_known(verb: str, *, has_paths: bool) -> bool:
    if verb == LEGACY_VERB or verb in IDENTITY_VERBS:
        return True
    found = action_verb(verb)
    return found is not None and found[1] in (METHODS if has_paths else (*REQUEST_VERBS, "proxy"))


def _why_unknown(verb: str) -> str:
    found = action_verb(verb)
    if found is not None and found[1] == STAR:
        return f"{verb} is no pattern: a star counts as a verb of its own only"
    if found is not None:
        return f"no request has the verb {found[1]!r} here, so {verb} is never asked for"
    if verb.startswith("impersonate-on:"):
        return f"{verb} names no mode, so it is never asked for"
    return f"{verb} is never asked for"


def _remedy(verb: str) -> str:
    found = action_verb(verb)
    if found is not None:
        return f"name the verbs of requests: {found[0].action_verb('get')} and so on"
    bare = verb.removeprefix("impersonate-on:")
    if bare in REQUEST_VERBS:
        return f"name the mode: {listed(mode.action_verb(bare) for mode in CONSTRAINED)}"
    if "node" in verb and not verb.startswith("impersonate-on"):
        return "write impersonate:associated-node or impersonate:arbitrary-node"
    close = get_close_matches(verb.lower(), _VALID, n=1, cutoff=0.7)
    if close:
        return f"write {close[0]}"
    return f"write one of {listed(IDENTITY_VERBS)}, or impersonate-on:MODE:VERB"


def _star(place: RuleLocation, where: str) -> Iterator[Finding]:
    rule = place.rule
    if is_built_in(place.source):
        return
    opens_all = STAR in rule.resources and not {STAR, AUTHENTICATION, ""}.isdisjoint(rule.groups)
    named = not _IDENTITY_RESOURCES.isdisjoint(rule.resources) or any(
        resource.startswith("userextras") for resource in rule.resources
    )
    opens_identities = named and not {STAR, AUTHENTICATION}.isdisjoint(rule.groups)
    if (opens_all or opens_identities) and not place.is_namespaced:
        yield place.warning(
            "star-verb",
            where,
            "the verb * includes impersonate and impersonate:MODE of every mode: whoever holds "
            "this can act as others",
            "name the verbs that are meant",
        )
    else:
        yield place.comment(
            "star-verb",
            where,
            "the verb * includes impersonate-on:MODE:VERB of every mode: with any identity, all "
            "of this can be done as somebody else",
            "name the verbs that are meant, if whoever holds this may act as others",
        )


def is_built_in(source: ManifestSource) -> bool:
    """Tell whether a role is one that every API server makes for itself."""
    metadata = source.content.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, Mapping) else None
    return string_at(labels, "kubernetes.io/bootstrapping") == "rbac-defaults"
