"""Join of the proxy's audit log with the cluster's by audit id.

Events arrive roughly in the order of their timestamps. A request is released some time after it has
ended. So memory is bounded by the events of that time, and not by the length of the logs.
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from proxy.analysis.audit_join.records import AuditRecord
from proxy.core.truncation import TruncatedValue

_FIRST_FAILURE = 300
_MAX_UNDECIDED = 100_000
# A request without a recorded end after this time is treated as ended.
_MAX_REQUEST_SECONDS = 24 * 3600.0


class JoinFlag(StrEnum):
    """Finding of a join that an auditor should check."""

    SAME_ID = "same-id"
    """Several requests have this id, which a client chose."""
    NOT_IN_CLUSTER = "not-in-cluster"
    """The request succeeded, but the cluster's log has no event of it."""
    NOT_IN_PROXY = "not-in-ours"
    """The proxy's credential was used, and the proxy's log has no event of it."""
    PROXY_PERMISSION_MISSING = "PROXY-PERMISSION-MISSING"
    """The API server denied the impersonation itself: the proxy lacks a permission."""
    TARGET_DIFFERS = "TARGET-DIFFERS"
    """The cluster executed the request as another user than the proxy's log says."""
    NOT_IMPERSONATED = "NOT-IMPERSONATED"
    """The proxy's credential was used without impersonation."""


SEVERE_FLAGS = frozenset((JoinFlag.TARGET_DIFFERS, JoinFlag.NOT_IMPERSONATED))


@dataclass(frozen=True, slots=True)
class JoinedRequest:
    """One request with its record in the proxy's log, in the cluster's log, or both."""

    proxy_record: AuditRecord | None
    cluster_record: AuditRecord | None
    flags: tuple[JoinFlag, ...]


@dataclass(slots=True)
class _Group:
    """All requests with one audit id."""

    started: float
    last_used: float
    proxy: list[AuditRecord] = field(default_factory=list)
    cluster: list[AuditRecord] = field(default_factory=list)

    def is_over(self, now: float) -> bool:
        """Return whether each request has ended, or is too old for a recorded end."""
        if now - self.started > _MAX_REQUEST_SECONDS:
            return True
        return all(record.is_over for record in self.proxy + self.cluster)


class AuditLogJoiner:
    """Joins the events of both logs, and yields requests once they are complete."""

    def __init__(self, *, proxy_user: str | None, window_seconds: float, max_seen_ids: int) -> None:
        """`proxy_user` is the proxy's own user name. If it is None, it is detected."""
        self.proxy_user = proxy_user
        self._window_seconds = window_seconds
        # OrderedDict, because finding the first key of a dict scans the slots of deleted keys.
        self._groups: OrderedDict[str, _Group] = OrderedDict()
        self._undecided: list[tuple[AuditRecord, list[AuditRecord]]] = []
        self._seen_ids: OrderedDict[int, None] = OrderedDict()
        self._max_seen_ids = max_seen_ids
        self._now = 0.0
        self.proxy_events = 0
        self.cluster_events = 0
        self.is_proxy_user_seen = False
        """Whether the cluster's log has an event of the proxy's user."""

    def add(
        self, record: AuditRecord, timestamp: float, *, is_from_proxy: bool
    ) -> Iterator[JoinedRequest]:
        """Add one event, and yield the requests that are complete at its time."""
        self._now = max(self._now, timestamp)
        self.proxy_events += is_from_proxy
        self.cluster_events += not is_from_proxy
        if not is_from_proxy and record.user == self.proxy_user:
            self.is_proxy_user_seen = True
        if is_from_proxy or self.proxy_user in {None, record.user}:
            self._add(record, is_ours=is_from_proxy)
        yield from self._completed_requests()

    def finish(self) -> Iterator[JoinedRequest]:
        """Yield the remaining requests."""
        for group in self._groups.values():
            yield from self._join_group(group)
        self._groups.clear()
        yield from self._evaluate_undecided()

    def _add(self, record: AuditRecord, *, is_ours: bool) -> None:
        group = self._groups.pop(record.audit_id, None) or _Group(self._now, self._now)
        group.last_used = self._now
        self._groups[record.audit_id] = group  # keeps the order of last use
        records = group.proxy if is_ours else group.cluster
        for position, earlier in enumerate(records):
            # Stages of one request have the same time of arrival. An event after the end of a
            # request belongs to another request.
            is_same = _arrival(earlier) == _arrival(record)
            if is_same and not earlier.is_complete:
                records[position] = earlier.merge(record)
                return
        records.append(record)

    def _completed_requests(self) -> Iterator[JoinedRequest]:
        for _ in range(len(self._groups)):
            audit_id, group = next(iter(self._groups.items()))
            if group.last_used > self._now - self._window_seconds:
                break
            del self._groups[audit_id]
            if group.is_over(self._now):
                yield from self._join_group(group)
            else:
                group.last_used = self._now  # not ended yet: a watch, for example
                self._groups[audit_id] = group
        if self._undecided and self.proxy_user is not None:
            yield from self._evaluate_undecided()

    def _join_group(self, group: _Group) -> Iterator[JoinedRequest]:
        proxy = group.proxy
        left = [record for record in group.cluster if self.proxy_user in {None, record.user}]
        was_seen = bool(proxy) and self._was_seen(proxy[0])
        flags = (JoinFlag.SAME_ID,) if was_seen or len(proxy) > 1 else ()
        found = self._matches(proxy, left)
        for record, match in zip(proxy, found, strict=True):
            yield JoinedRequest(record, match, flags + _flags(record, match))
        unmatched = [record for record, match in zip(proxy, found, strict=True) if match is None]
        for record in left:
            yield from self._cluster_only(record, unmatched, is_known_id=bool(proxy))

    def _matches(
        self, proxy: list[AuditRecord], left: list[AuditRecord]
    ) -> list[AuditRecord | None]:
        """Return the cluster's record of each request, and remove it from `left`.

        Exact matches come first. So among requests with one id, a request that the proxy denied
        cannot take the record of one that was executed.
        """
        found: list[AuditRecord | None] = [None] * len(proxy)
        for fits, needs_known_user in (
            (_matches_exactly, False),
            (_matches_except_code, False),
            (_matches_except_target, True),
            (self._is_missing_permission, True),
        ):
            if needs_known_user and self.proxy_user is None:
                break
            for position, record in enumerate(proxy):
                if found[position] is None:
                    # The cluster receives requests in the order in which the proxy received them.
                    match = min(
                        (candidate for candidate in left if fits(record, candidate)),
                        key=lambda candidate: candidate.received_at,
                        default=None,
                    )
                    if match is not None:
                        left.remove(match)
                        found[position] = match
                        # Any client may send any id directly to the API server. So only the user
                        # of a request that matches the proxy's log is taken for the proxy.
                        self.proxy_user = self.proxy_user or match.user
                        self.is_proxy_user_seen = True
        return found

    def _is_missing_permission(self, proxy: AuditRecord, cluster: AuditRecord) -> bool:
        return proxy.lacked_proxy_permission(cluster, max_skew_seconds=self._window_seconds)

    def _cluster_only(
        self, record: AuditRecord, unmatched: list[AuditRecord], *, is_known_id: bool
    ) -> Iterator[JoinedRequest]:
        if self.proxy_user is None:
            if len(self._undecided) < _MAX_UNDECIDED:
                self._undecided.append((record, unmatched))
            return
        if record.user != self.proxy_user or not record.is_decided:
            return
        for proxy in unmatched:
            if self._is_missing_permission(proxy, record):
                unmatched.remove(proxy)  # it explains one denial, and no second one
                yield JoinedRequest(None, record, (JoinFlag.PROXY_PERMISSION_MISSING,))
                return
        if record.target is not None:
            yield JoinedRequest(None, record, (JoinFlag.NOT_IN_PROXY,))
        elif is_known_id or not record.is_review:
            yield JoinedRequest(None, record, (JoinFlag.NOT_IMPERSONATED,))

    def _evaluate_undecided(self) -> Iterator[JoinedRequest]:
        """Evaluate the records from before the proxy's user name was known."""
        undecided, self._undecided = self._undecided, []
        for record, unmatched in undecided:
            yield from self._cluster_only(record, unmatched, is_known_id=False)

    def _was_seen(self, record: AuditRecord) -> bool:
        key = hash(record.audit_id)
        was_seen = key in self._seen_ids
        self._seen_ids.pop(key, None)
        self._seen_ids[key] = None
        if len(self._seen_ids) > self._max_seen_ids:
            self._seen_ids.popitem(last=False)
        return was_seen


def is_success(record: AuditRecord) -> bool:
    """Return whether a request succeeded."""
    return record.code is not None and record.code < _FIRST_FAILURE


def _flags(proxy: AuditRecord, cluster: AuditRecord | None) -> tuple[JoinFlag, ...]:
    if cluster is None:
        # A failure may be the proxy's own, which is not in the cluster's log. A success never is.
        return (JoinFlag.NOT_IN_CLUSTER,) if is_success(proxy) else ()
    if not cluster.is_decided or proxy.acts_as(cluster.target):
        return ()
    if cluster.target is not None:
        return (JoinFlag.TARGET_DIFFERS,)
    # Only `_is_missing_permission` pairs records with different codes and without a target.
    is_explained = proxy.code != cluster.code
    return (JoinFlag.PROXY_PERMISSION_MISSING if is_explained else JoinFlag.NOT_IMPERSONATED,)


def _matches_exactly(proxy: AuditRecord, cluster: AuditRecord) -> bool:
    return _matches_except_code(proxy, cluster) and cluster.code == proxy.code


def _matches_except_code(proxy: AuditRecord, cluster: AuditRecord) -> bool:
    # The proxy may have given up before the API server responded.
    is_same = proxy.verb == cluster.verb and proxy.has_uri_of(cluster)
    return is_same and proxy.acts_as(cluster.target)


def _matches_except_target(proxy: AuditRecord, cluster: AuditRecord) -> bool:
    is_same = (proxy.verb, proxy.code) == (cluster.verb, cluster.code)
    return is_same and proxy.has_uri_of(cluster)


def _arrival(record: AuditRecord) -> tuple[str, str, TruncatedValue | None]:
    return record.received_at, record.uri, record.truncated_uri
