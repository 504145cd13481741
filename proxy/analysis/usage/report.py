"""Output of the impersonation usage report, as a document and as text."""

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

_MAX_ROWS = 20
_MAX_NAMESPACES = 4
_MODE_ORDER = ("associated-node", "arbitrary-node", "serviceaccount", "user-info", NO_MODE)


@dataclass(frozen=True, slots=True)
class UsageReport:
    """The usage, and the number of events that were read."""

    usage: UsageCollector
    lines: int
    unreadable: int
    granted: Granted | None = None
    """Existing grants by impersonator, or None if the cluster was not queried."""

    def plans(self) -> Iterator[tuple[str, ImpersonatorUsage, MigrationPlan]]:
        """Yield each impersonator with its migration plan, most legacy requests first.

        Plans are computed one by one, so that only one is in memory.
        """
        usages = self.usage.impersonators
        for name in sorted(usages, key=lambda name: (-usages[name].requests.legacy, name)):
            granted = None if self.granted is None else self.granted[name]
            yield name, usages[name], plan_migration(name, usages[name], granted)


def report_head(report: UsageReport) -> dict[str, object]:
    """Return the head of the report document. Its list of impersonators is empty."""
    usage = report.usage
    return {
        "apiVersion": "kube-understudy.io/v1alpha1",
        "kind": "ImpersonationReport",
        "period": {"from": usage.first, "to": usage.last},
        "read": {
            "events": report.lines,
            "unreadable": report.unreadable,
            "truncated": report.usage.truncated,
            "requestsBeyondTheBound": usage.over_limit,
        },
        "impersonators": [],
    }


def report_texts(report: UsageReport, colors: Colors) -> Iterator[str]:
    """Yield the report as text, one impersonator at a time."""
    is_empty = True
    for name, impersonator, plan in report.plans():
        is_empty = False
        yield "\n".join([*_impersonator_lines(name, impersonator, plan, colors), "", ""])
    if is_empty:
        yield "No impersonation found.\n\n"
    yield "\n".join([*_summary(report), ""])


def impersonator_document(
    name: str, impersonator: ImpersonatorUsage, plan: MigrationPlan
) -> dict[str, object]:
    """Return the document of one impersonator."""
    return {
        "name": name,
        "requests": _counts(impersonator.requests),
        "modes": [_mode_document(mode, use) for mode, use in _in_order(impersonator)],
        "withoutLegacy": {
            "broken": [
                {
                    "what": broken.what,
                    "reason": broken.reason,
                    **({"remedy": broken.remedy} if broken.remedy else {}),
                    "requests": broken.requests,
                }
                for broken in plan.broken
            ],
            **({} if plan.missing is None else {"missing": plan.missing}),
            "notes": plan.notes,
            "grants": plan.grants,
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
            for action, namespaces in use.actions.items()
            for namespace, count in namespaces.counts.items()
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
    members: dict[str, object] = {
        "user": wanted_user.name,
        "uid": wanted_user.uid,
        "groups": list(wanted_user.groups),
        "extra": {key: list(values) for key, values in wanted_user.extra},
    }
    return {key: value for key, value in members.items() if value or key == "user"}


def _action(action: UsedRequest, namespace: str) -> dict[str, object]:
    members = {**action._asdict(), "namespace": namespace}
    names = {"group": "apiGroup"}
    return {names.get(key, key): value for key, value in members.items() if value}


def _in_order(impersonator: ImpersonatorUsage) -> Iterator[tuple[str, ModeUsage]]:
    for mode in _MODE_ORDER:
        if mode in impersonator.modes:
            yield mode, impersonator.modes[mode]


def _impersonator_lines(
    name: str, impersonator: ImpersonatorUsage, plan: MigrationPlan, colors: Colors
) -> Iterator[str]:
    requests = impersonator.requests
    yield (
        f"{colors.strong(escape_control_characters(name))}: "
        f"{requests.legacy} requests by legacy impersonation, "
        f"{requests.constrained} by constrained modes"
    )
    for mode, use in _in_order(impersonator):
        yield ""
        title = "no constrained mode" if mode == NO_MODE else mode
        yield from _indented([colors.strong(title), *_identity_lines(use), "", *_action_lines(use)])
    if requests.legacy or requests.forbidden:
        yield ""
        yield from _indented(_plan_lines(plan, colors))


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
    rows = [(action, namespaces, _total(namespaces)) for action, namespaces in use.actions.items()]
    rows.sort(key=lambda row: -row[2].legacy)
    return _shortened(
        table_lines(
            ("VERB", "ON", "NAMESPACES", "LEGACY", "CONSTRAINED", "TARGET-FORBIDDEN"),
            (
                (
                    action.verb,
                    describe_request(action),
                    _namespaces_text(action, namespaces),
                    str(total.legacy),
                    str(total.constrained),
                    str(total.forbidden),
                )
                for action, namespaces, total in rows
            ),
        )
    )


def _total(namespaces: NamespaceUsage) -> UsageCount:
    total = UsageCount()
    for count in namespaces.counts.values():
        total.merge(count)
    return total


def _namespaces_text(action: UsedRequest, namespaces: NamespaceUsage) -> str:
    if action.path:
        return "-"
    if namespaces.is_widened:
        return "(many)"
    names = sorted(namespaces.counts)
    shown = [name or "(cluster)" for name in names[:_MAX_NAMESPACES]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" +{more}" if more > 0 else "")


def _kept_lines(plan: MigrationPlan, colors: Colors) -> Iterator[str]:
    missing = plan.missing
    if missing is None and plan.grants:
        yield f"{colors.good('kept')}     by {len(plan.grants) // 2} roles (--grant-only)"
    if missing is None:
        return
    if not missing:
        yield f"{colors.good('kept')}     by existing grants"
    for check in missing[:_MAX_ROWS]:
        yield f"{colors.bad('missing')}  {escape_control_characters(check)}"
    if len(missing) > _MAX_ROWS:
        yield f"... and {len(missing) - _MAX_ROWS} more (-o json)"


def _plan_lines(plan: MigrationPlan, colors: Colors) -> Iterator[str]:
    yield colors.strong("without legacy impersonation")
    yield from _kept_lines(plan, colors)
    for broken in plan.broken:
        what = escape_control_characters(broken.what)
        yield f"{colors.bad('broken')}   {what}: {broken.requests} requests"
        yield f"         {escape_control_characters(broken.reason)}"
        if broken.remedy:
            yield f"         instead: {broken.remedy}"
    for note in plan.notes:
        yield colors.faint(f"note     {escape_control_characters(note)}")


def _summary(report: UsageReport) -> Iterator[str]:
    usage = report.usage
    period = f", {usage.first} to {usage.last}" if usage.last else ""
    yield f"{report.lines} events read{period}"
    if report.unreadable:
        yield f"{report.unreadable} lines are not audit events"
    if report.usage.truncated:
        yield (
            f"{report.usage.truncated} events are left out: a name in them was truncated because "
            "it exceeds audit.limits"
        )
    if usage.over_limit:
        yield f"{usage.over_limit} requests of further impersonators are not reported (--most)"


def _shortened(lines: list[str]) -> list[str]:
    if len(lines) <= _MAX_ROWS + 1:
        return lines
    return [*lines[: _MAX_ROWS + 1], f"... and {len(lines) - _MAX_ROWS - 1} more (-o json)"]


def _indented(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield f"  {line}" if line else ""
