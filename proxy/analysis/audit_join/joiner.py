"""Our audit log and the cluster's, joined by audit id: caller, constraint, target, action, outcome.

Events come in about the order of their times and are let go some time after a request has ended,
so memory is bounded by what happens in that time, and not by the length of the logs.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.exposition import generate_latest

from proxy.analysis.audit_join.records import AuditRecord
from proxy.core.truncation import Cut

_FIRST_FAILURE = 300
_MOST_UNDECIDED = 100_000
# A request of which nobody has told an end by then, has none that was written down.
_LONGEST_SECONDS = 24 * 3600.0


class JoinFlag(StrEnum):
    """What an auditor should look at."""

    SAME_ID = "same-id"
    """Several requests carry this id; a client chose it."""
    NOT_IN_CLUSTER = "not-in-cluster"
    """It was carried out, but the cluster's log has no event of it."""
    NOT_IN_OURS = "not-in-ours"
    """The cluster was asked with our credential, and our log has no event of it."""
    TARGET_DIFFERS = "TARGET-DIFFERS"
    """The cluster carried it out as somebody else than we say."""
    ALONE = "NOT-IMPERSONATED"
    """The cluster was asked with our credential in our own name."""


LOUD = frozenset((JoinFlag.TARGET_DIFFERS, JoinFlag.ALONE))


@dataclass(frozen=True, slots=True)
class JoinedRequest:
    """One request: as we tell it, as the cluster tells it, or both."""

    proxy_record: AuditRecord | None
    cluster_record: AuditRecord | None
    flags: tuple[JoinFlag, ...]


@dataclass(slots=True)
class _Group:
    """Every request with one audit id."""

    begun: float
    touched: float
    ours: list[AuditRecord] = field(default_factory=list)
    cluster: list[AuditRecord] = field(default_factory=list)

    def is_over(self, now: float) -> bool:
        """Tell whether each request has ended, as far as anybody will tell of it."""
        if now - self.begun > _LONGEST_SECONDS:
            return True
        return all(record.is_over for record in self.ours + self.cluster)


class AuditLogJoiner:
    """Takes the events of both logs, and gives requests as they are settled."""

    def __init__(
        self, *, proxy_user: str | None, window_seconds: float, remembered_ids: int
    ) -> None:
        """`proxy_user` is the proxy's own name; where it is None, it is found out."""
        self.proxy_user = proxy_user
        self._window_seconds = window_seconds
        # Ordered ones, for a plain dict looks for its first entry among those long gone.
        self._groups: OrderedDict[str, _Group] = OrderedDict()
        self._undecided: list[AuditRecord] = []
        self._seen_ids: OrderedDict[int, None] = OrderedDict()
        self._remembered_ids = remembered_ids
        self._now = 0.0

    def add(self, record: AuditRecord, moment: float, *, is_ours: bool) -> Iterator[JoinedRequest]:
        """Learn what one event tells, and give what is settled by its time."""
        self._now = max(self._now, moment)
        if is_ours or self.proxy_user in {None, record.user}:
            self._add(record, is_ours=is_ours)
        yield from self._settled()

    def finish(self) -> Iterator[JoinedRequest]:
        """Give the rest."""
        for group in self._groups.values():
            yield from self._resolve(group)
        self._groups.clear()
        yield from self._decided()

    def _add(self, record: AuditRecord, *, is_ours: bool) -> None:
        group = self._groups.pop(record.audit_id, None) or _Group(self._now, self._now)
        group.touched = self._now
        self._groups[record.audit_id] = group  # the last touched is last
        records = group.ours if is_ours else group.cluster
        for position, earlier in enumerate(records):
            # Stages of one request share the moment of its arrival. What has ended begins anew
            # only as another request.
            is_same = _arrival(earlier) == _arrival(record)
            if is_same and not earlier.is_complete:
                records[position] = earlier.merge(record)
                return
        records.append(record)

    def _settled(self) -> Iterator[JoinedRequest]:
        for _ in range(len(self._groups)):
            audit_id, group = next(iter(self._groups.items()))
            if group.touched > self._now - self._window_seconds:
                break
            del self._groups[audit_id]
            if group.is_over(self._now):
                yield from self._resolve(group)
            else:
                group.touched = self._now  # a watch, say, whose end is yet to come
                self._groups[audit_id] = group
        if self._undecided and self.proxy_user is not None:
            yield from self._decided()

    def _resolve(self, group: _Group) -> Iterator[JoinedRequest]:
        ours = group.ours
        left = [one for one in group.cluster if self.proxy_user in {None, one.user}]
        was_seen = bool(ours) and self._was_seen(ours[0])
        flags = (JoinFlag.SAME_ID,) if was_seen or len(ours) > 1 else ()
        found = self._matches(ours, left)
        for record, match in zip(ours, found, strict=True):
            yield JoinedRequest(record, match, flags + _flags(record, match))
        for record in left:
            yield from self._without_ours(record, is_known_id=bool(ours))

    def _matches(
        self, ours: list[AuditRecord], left: list[AuditRecord]
    ) -> list[AuditRecord | None]:
        """Return the cluster's side of each request, taking it away from those that are left.

        Those that fit in all go first. Then, among requests with one id, a refusal of ours cannot
        take the place of one that was carried out.
        """
        found: list[AuditRecord | None] = [None] * len(ours)
        for fits in (_fits_in_all, _fits_but_for_the_code, _fits_but_for_the_target):
            if fits is _fits_but_for_the_target and self.proxy_user is None:
                break
            for position, record in enumerate(ours):
                if found[position] is None:
                    # Requests arrive there in the order they arrived here.
                    match = min(
                        (one for one in left if fits(record, one)),
                        key=lambda one: one.received_at,
                        default=None,
                    )
                    if match is not None:
                        left.remove(match)
                        found[position] = match
                        # Anybody may send any id to the API server itself: only who has carried
                        # out just what we say we sent is taken for us.
                        self.proxy_user = self.proxy_user or match.user
        return found

    def _without_ours(self, record: AuditRecord, *, is_known_id: bool) -> Iterator[JoinedRequest]:
        if self.proxy_user is None:
            if len(self._undecided) < _MOST_UNDECIDED:
                self._undecided.append(record)
            return
        if record.user != self.proxy_user or not record.is_decided:
            return
        if record.target is not None:
            yield JoinedRequest(None, record, (JoinFlag.NOT_IN_OURS,))
        elif is_known_id or not record.is_review:
            yield JoinedRequest(None, record, (JoinFlag.ALONE,))

    def _decided(self) -> Iterator[JoinedRequest]:
        """Judge what came before our name was known."""
        undecided, self._undecided = self._undecided, []
        for record in undecided:
            yield from self._without_ours(record, is_known_id=False)

    def _was_seen(self, record: AuditRecord) -> bool:
        key = hash(record.audit_id)
        was_seen = key in self._seen_ids
        self._seen_ids.pop(key, None)
        self._seen_ids[key] = None
        if len(self._seen_ids) > self._remembered_ids:
            self._seen_ids.popitem(last=False)
        return was_seen


def _flags(ours: AuditRecord, cluster: AuditRecord | None) -> tuple[JoinFlag, ...]:
    if cluster is None:
        # A refusal may be our own, of which the cluster knows nothing. A success never is.
        succeeded = ours.code is not None and ours.code < _FIRST_FAILURE
        return (JoinFlag.NOT_IN_CLUSTER,) if succeeded else ()
    if not cluster.is_decided or ours.acts_as(cluster.target):
        return ()
    return (JoinFlag.ALONE,) if cluster.target is None else (JoinFlag.TARGET_DIFFERS,)


def _fits_in_all(ours: AuditRecord, cluster: AuditRecord) -> bool:
    return _fits_but_for_the_code(ours, cluster) and cluster.code == ours.code


def _fits_but_for_the_code(ours: AuditRecord, cluster: AuditRecord) -> bool:
    # We may have given up before the API server answered.
    is_same = ours.verb == cluster.verb and ours.has_uri_of(cluster)
    return is_same and ours.acts_as(cluster.target)


def _fits_but_for_the_target(ours: AuditRecord, cluster: AuditRecord) -> bool:
    is_same = (ours.verb, ours.code) == (cluster.verb, cluster.code)
    return is_same and ours.has_uri_of(cluster)


def _arrival(record: AuditRecord) -> tuple[str, str, Cut | None]:
    return record.received_at, record.uri, record.cut_uri


@dataclass(slots=True)
class JoinSummary:
    """Counts the requests of one join."""

    requests: int = 0
    in_both: int = 0
    flagged: int = 0
    loud: int = 0
    by_flag: Counter[JoinFlag] = field(default_factory=Counter)

    def count(self, request: JoinedRequest) -> None:
        """Take one request in."""
        self.requests += 1
        self.in_both += request.proxy_record is not None and request.cluster_record is not None
        self.flagged += bool(request.flags)
        self.loud += not LOUD.isdisjoint(request.flags)
        self.by_flag.update(request.flags)

    def page(self, now: float) -> bytes:
        """Return them as metrics of a join that ended now, in seconds since 1970.

        Each flag is there, found or not: an alert must be able to tell none from unknown.
        """
        registry = CollectorRegistry()
        flagged = Gauge(
            "understudy_audit_join_flagged_events",
            "Requests flagged by the last join, by flag: same-id, not-in-cluster, not-in-ours, "
            "TARGET-DIFFERS or NOT-IMPERSONATED.",
            ["flag"],
            registry=registry,
        )
        for flag in JoinFlag:
            flagged.labels(flag.value).set(self.by_flag[flag])
        Gauge(
            "understudy_audit_join_requests",
            "Requests that the last join found in either log.",
            registry=registry,
        ).set(self.requests)
        Gauge(
            "understudy_audit_join_last_run_timestamp_seconds",
            "When the last completed join ended, in seconds since 1970.",
            registry=registry,
        ).set(now)
        return generate_latest(registry)
