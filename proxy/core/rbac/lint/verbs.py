"""Findings about verbs: misspelled impersonation verbs, and verbs that allow too much."""

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
    comma_separated,
    identity_modes,
)
from proxy.core.rbac.model import string_at

REQUEST_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
METHODS = ("get", "head", "post", "put", "patch", "delete", "options")
_IDENTITY_RESOURCES = frozenset({"users", "groups", "uids", "serviceaccounts", "nodes"})
_VALID_VERBS = [
    *IDENTITY_VERBS,
    *(mode.action_verb(verb) for mode in CONSTRAINED for verb in REQUEST_VERBS),
]


def verb_findings(location: RuleLocation) -> Iterator[Finding]:
    """Yield the findings about the verbs of one rule."""
    rule = location.rule
    for position, verb in enumerate(rule.verbs):
        where = f".verbs[{position}]"
        if verb == STAR:
            yield from _star(location, where)
        elif verb.lower().startswith("impersonat") and not _is_known(
            verb, has_paths=bool(rule.paths)
        ):
            yield location.error("unknown-verb", where, _why_unknown(verb), _remedy(verb))
    is_constrained = bool(identity_modes(rule) or action_verbs(rule))
    if LEGACY_VERB in rule.verbs and is_constrained:
        yield location.warning(
            "legacy-overrules",
            f".verbs[{rule.verbs.index(LEGACY_VERB)}]",
            "the legacy verb impersonate is not limited to actions, so the constrained verbs next "
            "to it constrain nothing",
            "remove impersonate",
        )


def _is_known(verb: str, *, has_paths: bool) -> bool:
    if verb == LEGACY_VERB or verb in IDENTITY_VERBS:
        return True
    found = action_verb(verb)
    return found is not None and found[1] in (METHODS if has_paths else (*REQUEST_VERBS, "proxy"))


def _why_unknown(verb: str) -> str:
    found = action_verb(verb)
    if found is not None and found[1] == STAR:
        return f"{verb} is not a pattern: * is a wildcard only as the whole verb"
    if found is not None:
        return f"no request here has the verb {found[1]!r}, so no check has the verb {verb}"
    if verb.startswith("impersonate-on:"):
        return f"{verb} names no mode, so no check has this verb"
    return f"no check has the verb {verb}"


def _remedy(verb: str) -> str:
    found = action_verb(verb)
    if found is not None:
        return f"use request verbs: {found[0].action_verb('get')} and so on"
    bare = verb.removeprefix("impersonate-on:")
    if bare in REQUEST_VERBS:
        return f"name the mode: {comma_separated(mode.action_verb(bare) for mode in CONSTRAINED)}"
    if "node" in verb and not verb.startswith("impersonate-on"):
        return "write impersonate:associated-node or impersonate:arbitrary-node"
    close = get_close_matches(verb.lower(), _VALID_VERBS, n=1, cutoff=0.7)
    if close:
        return f"write {close[0]}"
    return f"write one of {comma_separated(IDENTITY_VERBS)}, or impersonate-on:MODE:VERB"


def _star(location: RuleLocation, where: str) -> Iterator[Finding]:
    rule = location.rule
    if is_built_in(location.source):
        return
    opens_all = STAR in rule.resources and not {STAR, AUTHENTICATION, ""}.isdisjoint(rule.groups)
    named = not _IDENTITY_RESOURCES.isdisjoint(rule.resources) or any(
        resource.startswith("userextras") for resource in rule.resources
    )
    opens_identities = named and not {STAR, AUTHENTICATION}.isdisjoint(rule.groups)
    if (opens_all or opens_identities) and not location.is_namespaced:
        yield location.warning(
            "star-verb",
            where,
            "the verb * includes impersonate and impersonate:MODE of every mode: a subject with "
            "this rule can impersonate others",
            "list the intended verbs",
        )
    else:
        yield location.note(
            "star-verb",
            where,
            "the verb * includes impersonate-on:MODE:VERB of every mode: together with any "
            "identity rule, it allows all of this while impersonating",
            "list the intended verbs, if subjects of this rule may impersonate others",
        )


def is_built_in(source: ManifestSource) -> bool:
    """Return whether a role is one of the defaults that every API server creates."""
    metadata = source.content.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, Mapping) else None
    return string_at(labels, "kubernetes.io/bootstrapping") == "rbac-defaults"
