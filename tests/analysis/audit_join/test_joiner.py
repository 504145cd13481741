from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from proxy.analysis.audit_join.joiner import AuditLogJoiner, JoinedRequest, JoinFlag
from proxy.analysis.audit_join.records import read_record, read_time
from proxy.core.audit.annotations import DOMAIN
from proxy.core.gocompat.quote import TRUNCATION_MARKER
from proxy.core.truncation import format_truncated_values, truncated_value

BEGIN = datetime(2026, 11, 16, 4, 0, tzinfo=UTC)
PROXY = "system:serviceaccount:understudy:proxy"


def stamp(second: float) -> str:
    moment = BEGIN + timedelta(seconds=second)
    return f"{moment.isoformat(timespec='microseconds')[:-6]}Z"


class Logs:
    """Two audit logs in the making."""

    def __init__(self) -> None:
        self.entries: list[tuple[dict[str, Any], bool]] = []

    def write(self, stages: Sequence[str], *, is_ours: bool, **facts: Any) -> None:
        at, lasts = facts.get("at", 0.0), facts.get("lasts", 0.1)
        for number, stage in enumerate(stages):
            is_first = stage == "RequestReceived"
            event: dict[str, Any] = {
                "kind": "Event",
                "stage": stage,
                "auditID": facts.get("id", "id-1"),
                "verb": facts.get("verb", "list"),
                "requestURI": facts.get("uri", "/api/v1/pods"),
                "user": {"username": facts["user"]},
                "objectRef": {"resource": facts.get("resource", "pods"), "apiVersion": "v1"},
                "requestReceivedTimestamp": stamp(at),
                "stageTimestamp": stamp(at + lasts * number),
            }
            if not is_first:
                event["responseStatus"] = {"metadata": {}, "code": facts.get("code", 200)}
                if facts.get("target"):
                    event["impersonatedUser"] = {"username": facts["target"]}
                if facts.get("cuts"):
                    told = {f"{DOMAIN}/truncated": format_truncated_values(facts["cuts"])}
                    event["annotations"] = told
                if facts.get("upstream_code"):
                    event["annotations"] = {f"{DOMAIN}/upstream-code": facts["upstream_code"]}
                if facts.get("constraint"):
                    event["authenticationMetadata"] = {
                        "impersonationConstraint": facts["constraint"]
                    }
            self.entries.append((event, is_ours))

    def ours(self, user: str, target: str | None = None, **facts: Any) -> None:
        stages = facts.pop("stages", ("RequestReceived", "ResponseComplete"))
        self.write(stages, is_ours=True, user=user, target=target, **facts)

    def cluster(self, target: str | None, *, user: str = PROXY, **facts: Any) -> None:
        stages = facts.pop("stages", ("RequestReceived", "ResponseComplete"))
        self.write(stages, is_ours=False, user=user, target=target, **facts)

    def joined(self, *, proxy_user: str | None = None, window: float = 60) -> list[JoinedRequest]:
        return list(self.joining(proxy_user=proxy_user, window=window))

    def joining(self, *, proxy_user: str | None, window: float) -> Iterator[JoinedRequest]:
        join = AuditLogJoiner(proxy_user=proxy_user, window_seconds=window, max_seen_ids=1000)
        for event, is_ours in sorted(self.entries, key=lambda entry: entry[0]["stageTimestamp"]):
            yield from join.add(read_record(event), read_time(event), is_from_proxy=is_ours)
        yield from join.finish()
        self.proxy_user = join.proxy_user


def told(
    requests: list[JoinedRequest],
) -> list[tuple[str | None, str | None, tuple[JoinFlag, ...]]]:
    """Return caller and target of each request, and what is odd about it."""
    rows: list[tuple[str | None, str | None, tuple[JoinFlag, ...]]] = []
    for one in requests:
        either = one.proxy_record or one.cluster_record
        assert either is not None
        caller = one.proxy_record.user if one.proxy_record else None
        rows.append((caller, either.impersonated_user, one.flags))
    return rows


def test_a_request_is_one_line_with_three_identities() -> None:
    logs = Logs()
    logs.ours("bob", "alice", constraint="impersonate:user-info")
    logs.cluster("alice")

    (request,) = logs.joined()

    assert request.proxy_record is not None
    assert request.cluster_record is not None
    assert (request.proxy_record.user, request.proxy_record.constraint) == (
        "bob",
        "impersonate:user-info",
    )
    assert (
        request.proxy_record.impersonated_user,
        request.cluster_record.target,
        request.cluster_record.user,
    ) == (
        "alice",
        "alice",
        PROXY,
    )
    assert (
        request.proxy_record.verb,
        request.proxy_record.object_text,
        request.proxy_record.code,
    ) == (
        "list",
        "pods",
        200,
    )
    assert request.flags == ()
    assert logs.proxy_user == PROXY


def test_somebody_who_acts_as_itself_is_impersonated_all_the_same() -> None:
    logs = Logs()
    logs.ours("bob")
    logs.cluster("bob")

    assert told(logs.joined()) == [("bob", "bob", ())]


def test_a_refusal_of_ours_needs_nothing_in_the_cluster_and_a_success_does() -> None:
    logs = Logs()
    logs.ours("bob", code=403, id="refused")
    logs.ours("bob", code=200, id="done", at=1)

    assert told(logs.joined()) == [
        ("bob", "bob", ()),
        ("bob", "bob", (JoinFlag.NOT_IN_CLUSTER,)),
    ]


def test_codes_may_differ() -> None:
    logs = Logs()
    logs.ours("bob", code=504)
    logs.cluster("bob", code=200)

    (request,) = logs.joined()

    assert request.cluster_record is not None
    assert request.flags == ()


def test_two_requests_with_one_id_are_both_kept_and_flagged() -> None:
    logs = Logs()
    logs.ours("bob", "alice", at=0)
    logs.cluster("alice", at=0.01)
    logs.ours("mallory", at=5)
    logs.cluster("mallory", at=5.01)

    requests = logs.joined()

    assert told(requests) == [
        ("bob", "alice", (JoinFlag.SAME_ID,)),
        ("mallory", "mallory", (JoinFlag.SAME_ID,)),
    ]
    assert [one.cluster_record.target for one in requests if one.cluster_record] == [
        "alice",
        "mallory",
    ]


def test_two_requests_that_are_alike_in_all_but_their_time_are_two() -> None:
    logs = Logs()
    for at in (0, 5):
        logs.ours("bob", at=at)
        logs.cluster("bob", at=at + 0.01)

    requests = logs.joined()

    assert told(requests) == [("bob", "bob", (JoinFlag.SAME_ID,))] * 2
    assert all(one.cluster_record for one in requests)


def test_two_requests_at_the_very_same_moment_are_two() -> None:
    logs = Logs()
    for _ in range(2):
        logs.ours("bob", stages=("ResponseComplete",))
        logs.cluster("bob", stages=("ResponseComplete",))

    assert told(logs.joined()) == [("bob", "bob", (JoinFlag.SAME_ID,))] * 2


def test_an_id_that_comes_again_much_later_is_flagged_then() -> None:
    logs = Logs()
    logs.ours("bob", at=0)
    logs.cluster("bob", at=0)
    logs.ours("eve", code=403, id="between", at=1800)
    logs.ours("carol", at=3600)
    logs.cluster("carol", at=3600)

    assert told(logs.joined()) == [
        ("bob", "bob", ()),
        ("eve", "eve", ()),
        ("carol", "carol", (JoinFlag.SAME_ID,)),
    ]


def test_a_refused_request_with_a_borrowed_id_does_not_take_another_ones_place() -> None:
    logs = Logs()
    logs.ours("mallory", code=403, at=0)
    logs.ours("alice", at=1)
    logs.cluster("alice", at=1.01)

    requests = logs.joined(proxy_user=PROXY)

    assert told(requests) == [
        ("mallory", "mallory", (JoinFlag.SAME_ID,)),
        ("alice", "alice", (JoinFlag.SAME_ID,)),
    ]
    assert [one.cluster_record is not None for one in requests] == [False, True]


def test_a_request_of_ours_in_our_own_name_is_flagged_loudly() -> None:
    logs = Logs()
    logs.ours("bob", id="before")
    logs.cluster("bob", id="before")
    logs.ours("bob", at=1)
    logs.cluster(None, at=1)

    assert told(logs.joined())[1:] == [("bob", "bob", (JoinFlag.NOT_IMPERSONATED,))]


@pytest.mark.parametrize("proxy_user", [PROXY, None], ids=["told", "found"])
def test_what_somebody_else_does_with_our_credential_is_flagged_loudly(
    proxy_user: str | None,
) -> None:
    logs = Logs()
    logs.cluster(None, id="stolen", resource="secrets")
    logs.cluster("alice", id="borrowed", at=1)
    logs.ours("bob", at=300)
    logs.cluster("bob", at=300)

    assert sorted(told(logs.joined(proxy_user=proxy_user)), key=str) == sorted(
        [
            (None, PROXY, (JoinFlag.NOT_IMPERSONATED,)),
            (None, "alice", (JoinFlag.NOT_IN_PROXY,)),
            ("bob", "bob", ()),
        ],
        key=str,
    )


def test_a_cluster_that_acted_as_somebody_else_is_flagged_loudly() -> None:
    logs = Logs()
    logs.ours("bob", "alice")
    logs.cluster("root")

    assert told(logs.joined(proxy_user=PROXY)) == [("bob", "alice", (JoinFlag.TARGET_DIFFERS,))]


def test_our_own_reviews_are_nobodys_request() -> None:
    logs = Logs()
    for number, resource in enumerate(
        ("tokenreviews", "subjectaccessreviews", "selfsubjectreviews")
    ):
        logs.cluster(None, id=f"review-{number}", verb="create", resource=resource)

    assert logs.joined(proxy_user=PROXY) == []


def test_our_own_question_for_the_version_is_nobodys_request_and_a_clients_is() -> None:
    logs = Logs()
    logs.ours("bob", verb="get", uri="/version")
    logs.cluster(None, verb="get", uri="/version")
    logs.cluster(None, id="own", verb="get", uri="/version", at=1)
    logs.cluster(None, id="stolen", verb="get", uri="/version?x", at=2)

    requests = logs.joined(proxy_user=PROXY)

    records = [one.cluster_record or one.proxy_record for one in requests]
    assert [one.audit_id for one in records if one is not None] == ["id-1", "stolen"]
    assert {one.flags for one in requests} == {(JoinFlag.NOT_IMPERSONATED,)}


def test_a_review_that_a_client_sent_through_us_must_be_impersonated() -> None:
    logs = Logs()
    logs.ours("bob", verb="create", resource="selfsubjectreviews")
    logs.cluster(None, verb="create", resource="selfsubjectreviews")

    assert told(logs.joined(proxy_user=PROXY)) == [("bob", "bob", (JoinFlag.NOT_IMPERSONATED,))]


def test_what_others_do_at_the_cluster_is_left_out_even_under_an_id_of_ours() -> None:
    logs = Logs()
    logs.cluster(None, user="admin", at=-1)
    logs.ours("bob")
    logs.cluster("bob")
    logs.cluster(None, user="mallory", at=1)
    logs.cluster(None, user="kubelet", id="other", at=2)

    assert told(logs.joined()) == [("bob", "bob", ())]


def test_a_failed_login_has_one_event_and_is_let_go() -> None:
    logs = Logs()
    for number in range(10):
        logs.ours("", id=f"login-{number}", code=401, at=number * 100, stages=("ResponseStarted",))

    assert [one.proxy_record.code for one in logs.joined() if one.proxy_record] == [401] * 10


STAGES = ("RequestReceived", "ResponseStarted", "ResponseComplete")


def test_a_watch_is_waited_for_and_is_one_line() -> None:
    logs = Logs()
    logs.ours("bob", id="watch", lasts=1800, stages=STAGES)
    logs.cluster("bob", id="watch", lasts=1800, stages=STAGES)
    for number in range(10):
        logs.ours("bob", id=f"{number}", at=number * 400)
        logs.cluster("bob", id=f"{number}", at=number * 400)

    requests = logs.joined()

    assert len(requests) == 11
    assert all(one.proxy_record and one.cluster_record for one in requests)
    assert {one.flags for one in requests} == {()}


def test_what_came_before_our_name_was_known_is_told_as_soon_as_it_is() -> None:
    logs = Logs()
    logs.cluster(None, id="stolen", resource="secrets")
    logs.cluster(None, user="admin", id="other")
    logs.ours("bob", id="known", at=100)
    logs.cluster("bob", id="known", at=100)
    for number in range(3):
        logs.ours("eve", id=f"later-{number}", code=403, at=200 * (number + 1))

    requests = told(logs.joined())

    assert requests[:2] == [("bob", "bob", ()), (None, PROXY, (JoinFlag.NOT_IMPERSONATED,))]
    assert len(requests) == 5


def test_a_request_without_an_end_is_let_go_after_a_day() -> None:
    logs = Logs()
    logs.ours("bob", id="crashed", stages=("RequestReceived",))
    for hour in range(30):
        logs.ours("eve", id=f"id-{hour}", code=403, at=3600 * hour)

    assert [one.proxy_record.audit_id for one in logs.joined() if one.proxy_record].index(
        "crashed"
    ) < 29


def test_memory_is_bounded_by_the_window_and_not_by_the_length() -> None:
    join = AuditLogJoiner(proxy_user=PROXY, window_seconds=10, max_seen_ids=50)
    most = emitted = 0
    for second in range(2000):
        logs = Logs()
        logs.ours("bob", id=f"id-{second}", at=second)
        logs.cluster("bob", id=f"id-{second}", at=second)
        logs.cluster(None, user="stranger", id=f"other-{second}", at=second)
        logs.ours("", id=f"login-{second}", code=401, at=second, stages=("ResponseStarted",))
        for event, is_ours in logs.entries:
            record, moment = read_record(event), read_time(event)
            emitted += len(list(join.add(record, moment, is_from_proxy=is_ours)))
        most = max(most, len(join._groups) + len(join._undecided) + len(join._seen_ids))

    assert most < 80
    assert emitted > 3900


def test_a_zero_window_ends() -> None:
    logs = Logs()
    logs.ours("bob", lasts=5, stages=STAGES)
    logs.cluster("bob", lasts=5, stages=STAGES)

    assert len(logs.joined(window=0)) == 1


LONG_URI = "/api/v1/namespaces/a/pods/b/exec?command=" + "x" * 20_000
CUT_URI = LONG_URI[:1000] + TRUNCATION_MARKER


def test_a_uri_that_our_log_cut_is_found_by_its_digest() -> None:
    logs = Logs()
    logs.ours(
        "bob",
        uri=CUT_URI,
        stages=["ResponseComplete"],
        cuts=[truncated_value("requestURI", LONG_URI)],
    )
    logs.cluster("bob", uri=LONG_URI)

    (request,) = logs.joined(proxy_user=PROXY)

    assert request.cluster_record is not None
    assert request.cluster_record.uri == LONG_URI
    assert request.flags == ()


@pytest.mark.parametrize(
    "uri", [LONG_URI + "&command=more", LONG_URI[:-1] + "y", CUT_URI, LONG_URI[:1000]]
)
def test_a_uri_that_only_begins_like_a_cut_one_is_another(uri: str) -> None:
    logs = Logs()
    logs.ours(
        "bob",
        uri=CUT_URI,
        stages=["ResponseComplete"],
        cuts=[truncated_value("requestURI", LONG_URI)],
    )
    logs.cluster("bob", uri=uri)

    flags = [one.flags for one in logs.joined(proxy_user=PROXY)]

    assert flags == [(JoinFlag.NOT_IN_CLUSTER,), (JoinFlag.NOT_IN_PROXY,)]


def test_a_uri_that_a_client_ended_in_the_marker_is_whole() -> None:
    logs = Logs()
    logs.ours("bob", uri=CUT_URI)
    logs.cluster("bob", uri=LONG_URI)

    flags = [one.flags for one in logs.joined(proxy_user=PROXY)]

    assert flags == [(JoinFlag.NOT_IN_CLUSTER,), (JoinFlag.NOT_IN_PROXY,)]


@pytest.mark.parametrize(
    ("target", "flags"),
    [
        ("a" * 20_000, ()),
        ("a" * 19_999 + "b", (JoinFlag.TARGET_DIFFERS,)),
        (None, (JoinFlag.NOT_IMPERSONATED,)),
    ],
    ids=["same", "other", "nobody"],
)
def test_a_name_that_our_log_cut_is_compared_by_its_digest(
    target: str | None, flags: tuple[JoinFlag, ...]
) -> None:
    logs = Logs()
    cut = truncated_value("impersonatedUser.username", "a" * 20_000)
    logs.ours("bob", "a" * 1000 + TRUNCATION_MARKER, cuts=[cut])
    logs.cluster(target)

    (request,) = logs.joined(proxy_user=PROXY)

    assert request.flags == flags


def test_a_caller_whose_name_was_cut_acts_as_itself() -> None:
    logs = Logs()
    cut = truncated_value("user.username", "a" * 20_000)
    logs.ours("a" * 1000 + TRUNCATION_MARKER, cuts=[cut])
    logs.cluster("a" * 20_000)

    (request,) = logs.joined(proxy_user=PROXY)

    assert request.flags == ()


LACKING = {"code": 500, "upstream_code": "403"}


def lacking_permission() -> Logs:
    """Return logs in which the API server denied the proxy the impersonation of one request."""
    logs = Logs()
    logs.ours("bob", "alice", id="lacking", at=1, **LACKING)
    logs.cluster(None, id="lacking", code=403, at=1.1)
    return logs


def test_denied_impersonation_with_its_line_in_the_proxy_log_is_a_missing_permission() -> None:
    (request,) = lacking_permission().joined(proxy_user=PROXY)

    assert request.proxy_record is not None
    assert request.cluster_record is not None
    assert request.flags == (JoinFlag.PROXY_PERMISSION_MISSING,)


@pytest.mark.parametrize("first", [0.5, 2.0], ids=["known user", "user known later"])
def test_missing_permission_is_no_misuse_before_the_proxy_user_is_known(first: float) -> None:
    logs = lacking_permission()
    logs.ours("carol", id="other", at=first * 100)
    logs.cluster("carol", id="other", at=first * 100)

    flags = [flag for request in logs.joined() for flag in request.flags]

    assert flags == [JoinFlag.PROXY_PERMISSION_MISSING]


def test_denied_request_of_the_proxy_user_without_a_line_in_the_proxy_log_is_misuse() -> None:
    logs = Logs()
    logs.cluster(None, id="lacking", code=403, at=1)

    assert [request.flags for request in logs.joined(proxy_user=PROXY)] == [
        (JoinFlag.NOT_IMPERSONATED,)
    ]


@pytest.mark.parametrize(
    ("ours", "cluster"),
    [
        ({"uri": "/api/v1/secrets"}, {}),
        ({"verb": "get"}, {}),
        ({"upstream_code": ""}, {}),
        ({"upstream_code": "200"}, {}),
        ({"code": 200}, {}),
        ({"id": "another"}, {}),
        ({"at": -61}, {}),
        ({"at": 63}, {}),
        ({}, {"code": 200}),
        ({}, {"code": 404}),
    ],
)
def test_denied_request_that_differs_from_the_proxy_log_is_misuse(
    ours: dict[str, Any], cluster: dict[str, Any]
) -> None:
    logs = Logs()
    logs.ours("bob", "alice", **{"id": "lacking", "at": 1, **LACKING, **ours})
    logs.cluster(None, **{"id": "lacking", "at": 1.1, "code": 403, **cluster})

    flags = [flag for request in logs.joined(proxy_user=PROXY) for flag in request.flags]

    assert JoinFlag.NOT_IMPERSONATED in flags
    assert JoinFlag.PROXY_PERMISSION_MISSING not in flags


def test_one_line_in_the_proxy_log_explains_one_denied_request() -> None:
    logs = lacking_permission()
    logs.cluster(None, id="lacking", code=403, at=2)

    flags = [flag for request in logs.joined(proxy_user=PROXY) for flag in request.flags]

    assert sorted(flags) == [JoinFlag.NOT_IMPERSONATED, JoinFlag.PROXY_PERMISSION_MISSING]
