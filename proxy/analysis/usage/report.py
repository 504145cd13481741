"""What was gathered from audit logs, as a document for programs and as text for people."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from proxy.analysis.output import Colors, escape_control_characters, table_lines
from proxy.analysis.usage.collector import (
    ImpersonatorUsage,
    ModeUsage,
    NamespaceUsage,
    UsageCollector,
    UsageCount,
)
from proxy.analysis.usage.events import ASSOCIATED_NODE, NO_MODE, UsedRequest
from proxy.analysis.usage.grants import (
    Granted,
    MigrationPlan,
    describe_identity,
    describe_request,
    plan_migration,
)
from proxy.core.userinfo import UserInfo

_MOST_ROWS = 20
_MOST_NAMESPACES = 4
_MODE_ORDER = ("associated-node", "arbitrary-node", "serviceaccount", "user-info", NO_MODE)


@dataclass(frozen=True, slots=True)
class UsageReport:
    """What is told: the usage, and how much was read for it."""

    usage: UsageCollector
    lines: int
    unreadable: int
    granted: Granted | None = None
    """What the cluster has granted to each already; None if it was not asked."""

    def outlooks(self) -> Iterator[tuple[str, ImpersonatorUsage, MigrationPlan]]:
        """Give each impersonator with what becomes of it; who used legacy most comes first.

        One after the other, so that no more than one has to be in memory.
        """
        everybody = self.usage.impersonators
        for name in sorted(everybody, key=lambda name: (-everybody[name].requests.legacy, name)):
            granted = None if self.granted is None else self.granted[name]
            yield name, everybody[name], plan_migration(name, everybody[name], granted)


def report_head(report: UsageReport) -> dict[str, object]:
    """Return what is told of the whole, for a program; its list of impersonators is empty."""
    usage = report.usage
    return {
        "apiVersion": "kube-understudy.io/v1alpha1",
        "kind": "ImpersonationReport",
        "period": {"from": usage.first, "to": usage.last},
        "read": {
            "events": report.lines,
            "unreadable": report.unreadable,
            "truncated": report.usage.truncated,
            "requestsBeyondTheBound": usage.beyond,
        },
        "impersonators": [],
    }


def report_texts(report: UsageReport, ink: Colors) -> Iterator[str]:
    """Give what matters most, for people."""
    is_empty = True
    for name, somebody, outlook in report.outlooks():
        is_empty = False
        yield "\n".join([*_impersonator_lines(name, somebody, outlook, ink), "", ""])
    if is_empty:
        yield "Nobody acted as somebody else.\n\n"
    yield "\n".join([*_summary(report), ""])


def impersonator_document(
    name: str, somebody: ImpersonatorUsage, outlook: MigrationPlan
) -> dict[str, object]:
    """Return everything about one impersonator, for a program."""
    return {
        "name": name,
        "requests": _counts(somebody.requests),
        "modes": [_mode_document(mode, use) for mode, use in _in_order(somebody)],
        "withoutLegacy": {
            "broken": [
                {
                    "what": broken.what,
                    "reason": broken.reason,
                    **({"remedy": broken.remedy} if broken.remedy else {}),
                    "requests": broken.requests,
                }
                for broken in outlook.broken
            ],
            **({} if outlook.missing is None else {"missing": outlook.missing}),
            "notes": outlook.notes,
            "grants": outlook.grants,
        },
    }


def _mode_document(mode: str, use: ModeUsage) -> dict[str, object]:
    return {
        "mode": mode,
        "identities": [
            {**_identity(wanted_user), **_counts(count)}
            for wanted_user, count in use.identities.items()
        ],
        "actions": [
            {**_action(action, namespace), **_counts(count)}
            for action, places in use.actions.items()
            for namespace, count in places.counts.items()
        ],
    }


def _counts(count: UsageCount) -> dict[str, object]:
    return {
        "legacy": count.legacy,
        "constrained": count.constrained,
        "legacyForbidden": count.forbidden,
    }


def _identity(wanted_user: UserInfo) -> dict[str, object]:
    if wanted_user == ASSOCIATED_NODE:
        return {"ownNode": True}
    told: dict[str, object] = {
        "user": wanted_user.name,
        "uid": wanted_user.uid,
        "groups": list(wanted_user.groups),
        "extra": {key: list(values) for key, values in wanted_user.extra},
    }
    return {key: value for key, value in told.items() if value or key == "user"}


def _action(action: UsedRequest, namespace: str) -> dict[str, object]:
    told = {**action._asdict(), "namespace": namespace}
    names = {"group": "apiGroup"}
    return {names.get(key, key): value for key, value in told.items() if value}


def _in_order(somebody: ImpersonatorUsage) -> Iterator[tuple[str, ModeUsage]]:
    for mode in _MODE_ORDER:
        if mode in somebody.modes:
            yield mode, somebody.modes[mode]


def _impersonator_lines(
    name: str, somebody: ImpersonatorUsage, outlook: MigrationPlan, ink: Colors
) -> Iterator[str]:
    requests = somebody.requests
    yield (
        f"{ink.strong(escape_control_characters(name))}: "
        f"{requests.legacy} requests by legacy impersonation, "
        f"{requests.constrained} by constrained modes"
    )
    for mode, use in _in_order(somebody):
        yield ""
        title = "no constrained mode" if mode == NO_MODE else mode
        yield from _indented([ink.strong(title), *_identity_lines(use), "", *_action_lines(use)])
    if requests.legacy or requests.forbidden:
        yield ""
        yield from _indented(_outlook_lines(outlook, ink))


def _identity_lines(use: ModeUsage) -> list[str]:
    rows = sorted(use.identities.items(), key=lambda item: -item[1].legacy)
    return _shortened(
        table_lines(
            ("IDENTITY", "LEGACY", "CONSTRAINED"),
            (
                (describe_identity(wanted_user), str(count.legacy), str(count.constrained))
                for wanted_user, count in rows
            ),
        )
    )


def _action_lines(use: ModeUsage) -> list[str]:
    rows = [(action, places, _total(places)) for action, places in use.actions.items()]
    rows.sort(key=lambda row: -row[2].legacy)
    return _shortened(
        table_lines(
            ("VERB", "ON", "NAMESPACES", "LEGACY", "CONSTRAINED", "TARGET-FORBIDDEN"),
            (
                (
                    action.verb,
                    describe_request(action),
                    _namespaces_text(action, places),
                    str(total.legacy),
                    str(total.constrained),
                    str(total.forbidden),
                )
                for action, places, total in rows
            ),
        )
    )


def _total(places: NamespaceUsage) -> UsageCount:
    total = UsageCount()
    for count in places.counts.values():
        total.merge(count)
    return total


def _namespaces_text(action: UsedRequest, places: NamespaceUsage) -> str:
    if action.path:
        return "-"
    if places.is_widened:
        return "(many)"
    names = sorted(places.counts)
    shown = [name or "(cluster)" for name in names[:_MOST_NAMESPACES]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" +{more}" if more > 0 else "")


def _kept_lines(outlook: MigrationPlan, ink: Colors) -> Iterator[str]:
    missing = outlook.missing
    if missing is None and outlook.grants:
        yield f"{ink.good('kept')}     by {len(outlook.grants) // 2} roles (--grant-only)"
    if missing is None:
        return
    if not missing:
        yield f"{ink.good('kept')}     by what is granted already"
    for check in missing[:_MOST_ROWS]:
        yield f"{ink.bad('missing')}  {escape_control_characters(check)}"
    if len(missing) > _MOST_ROWS:
        yield f"... and {len(missing) - _MOST_ROWS} more (-o json)"


def _outlook_lines(outlook: MigrationPlan, ink: Colors) -> Iterator[str]:
    yield ink.strong("without legacy impersonation")
    yield from _kept_lines(outlook, ink)
    for broken in outlook.broken:
        what = escape_control_characters(broken.what)
        yield f"{ink.bad('broken')}   {what}: {broken.requests} requests"
        yield f"         {escape_control_characters(broken.reason)}"
        if broken.remedy:
            yield f"         instead: {broken.remedy}"
    for note in outlook.notes:
        yield ink.faint(f"note     {escape_control_characters(note)}")


def _summary(report: UsageReport) -> Iterator[str]:
    usage = report.usage
    period = f", {usage.first} to {usage.last}" if usage.last else ""
    yield f"{report.lines} events read{period}"
    if report.unreadable:
        yield f"{report.unreadable} lines are no audit events"
    if report.usage.truncated:
        yield (
            f"{report.usage.truncated} events are left out: a name in them was cut because it is "
            "longer than audit.limits allow"
        )
    if usage.beyond:
        yield f"{usage.beyond} requests of further impersonators are not told (--most)"


def _shortened(lines: list[str]) -> list[str]:
    if len(lines) <= _MOST_ROWS + 1:
        return lines
    return [*lines[: _MOST_ROWS + 1], f"... and {len(lines) - _MOST_ROWS - 1} more (-o json)"]


def _indented(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield f"  {line}" if line else ""
