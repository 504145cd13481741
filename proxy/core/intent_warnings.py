"""Where grants allow more than was meant: RBAC knows rules, and not which go together.

Somebody's identities and actions are separate rights. Within one mode each goes with each, in one
intent, between intents, and with what the cluster grants already.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import permutations

from proxy.core.identity import Identity
from proxy.core.intent import Intent
from proxy.core.modes import Mode
from proxy.core.rbac import Rbac, Rule, Subject
from proxy.core.subjects import somebody, spoken

_AUTHENTICATION = "authentication.k8s.io"
_LEGACY_RESOURCES = ("users", "groups", "serviceaccounts")
_STAR = "*"


def union_warnings(intents: Sequence[Intent]) -> list[str]:
    """Return what the intents together allow though none of them means it."""
    warnings = [warning for intent in intents for warning in _within(intent)]
    for first, second in permutations(intents, 2):
        warnings += _between(first, second)
    return list(dict.fromkeys(warnings))


def existing_warnings(intents: Iterable[Intent], rbac: Rbac) -> list[str]:
    """Return what becomes possible together with rights that the impersonators have already.

    Bindings of the intents' own names are what is being replaced, and do not count.
    """
    warnings = [
        warning
        for intent in intents
        for subject in intent.impersonators
        for warning in _existing(intent, subject, rbac)
    ]
    return list(dict.fromkeys(warnings))


def _within(intent: Intent) -> Iterator[str]:
    """Give the mixed identities: one target's name with another's groups, uid or extras."""
    for first, second in permutations(intent.targets, 2):
        if first.name == second.name:
            continue
        for kind, theirs, ours in _parts(first, second):
            strange = [part for part in theirs if part not in ours]
            if strange:
                yield (
                    f"{intent.name}: {first.name} may also be asked for with {second.name}'s "
                    f"{kind} {strange[0]}: parts of an identity are granted one by one"
                )
                break


def _parts(
    first: Identity, second: Identity
) -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    yield "group", second.groups, first.groups
    yield "uid", (second.uid,) if second.uid else (), (first.uid,)
    yield "extra", _extras(second), _extras(first)


def _extras(identity: Identity) -> tuple[str, ...]:
    return tuple(f"{key}={value}" for key, values in identity.extra for value in values)


def _between(first: Intent, second: Intent) -> Iterator[str]:
    """Give what comes of two intents for one impersonator: targets of one, actions of the other."""
    shared = [one for one in first.impersonators if one in second.impersonators]
    if not shared or first.mode is not second.mode:
        return
    targets = [target for target in first.targets if target not in second.targets]
    actions = [action for action in second.actions() if not first.means_action(action)]
    if targets and actions:
        yield (
            f"{spoken(shared[0])} may act as {targets[0].name} ({first.name}) also to "
            f"{_deed(actions[0].verb, actions[0].resource or actions[0].path)} ({second.name}): "
            f"within {first.mode} every target goes with every action"
        )


def _deed(verb: str, what: str) -> str:
    return f"{verb} {what}"


def _existing(intent: Intent, subject: Subject, rbac: Rbac) -> Iterator[str]:
    identity = somebody(subject)
    for binding in rbac.bindings:
        if binding.name == intent.name or not binding.is_held_by(identity):
            continue
        where = f"in {binding.namespace}" if binding.namespace else "everywhere"
        for rule in binding.rules:
            for what in _kinds(rule, intent):
                yield f"{spoken(subject)} already has {binding.role} {where}, which {what}"


def _kinds(rule: Rule, intent: Intent) -> Iterator[str]:
    mode = intent.mode
    if is_legacy(rule):
        yield "is legacy impersonation: bound to no action, so that this intent constrains nothing"
    elif _STAR in rule.verbs and (rule.resources or rule.paths):
        yield "has the verb *: every action and every identity of its resources, in every mode"
    elif mode.identity_verb in rule.verbs and _AUTHENTICATION in rule.groups:
        if mode is not Mode.ASSOCIATED_NODE:
            named = ", ".join(rule.names) or "all names"
            yield (
                f"opens {', '.join(rule.resources)} ({named}) in {mode}: "
                "the actions of this intent hold for them, too"
            )
    else:
        verbs = [verb for verb in rule.verbs if verb.startswith(mode.action_verb(""))]
        if verbs:
            things = ", ".join(rule.resources or rule.paths)
            yield f"allows {', '.join(verbs)} on {things}: as the targets of this intent, too"


def is_legacy(rule: Rule) -> bool:
    """Tell whether a rule is about impersonation of old, whether by its verb or by a star."""
    if not {"impersonate", _STAR} & set(rule.verbs):
        return False
    in_core = {"", _STAR} & set(rule.groups)
    return bool(in_core) and bool({_STAR, *_LEGACY_RESOURCES} & set(rule.resources))
