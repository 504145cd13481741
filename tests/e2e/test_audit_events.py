"""Our events beside those of the native server, for the same requests at every level."""

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pytest

from proxy.core.audit.annotations import DOMAIN, read_event_cuts
from proxy.core.gocompat.quote import TRUNCATION_MARKER
from proxy.core.truncation import is_truncated_from, json_size
from proxy.sandbox.api_client import ApiClient, client_context
from proxy.sandbox.api_server import ApiServer, ApiServerOptions
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.identities import BearerToken, Credential
from proxy.sandbox.objects import apply, create_namespace
from proxy.sandbox.web_socket import WebSocket
from tests.e2e.kep.cast import Cast
from tests.e2e.kep.understudy import Understudy, running_understudy
from tests.support.audit_events import Event, events_of, masked, ordered
from tests.support.control_plane import fresh_name
from tests.support.impersonation import (
    Caller,
    Header,
    Rights,
    Rule,
    as_node,
    as_user,
    may,
    may_be,
    may_do,
    may_impersonate,
    may_visit,
)
from tests.support.kubelet import FakeKubelet, running_kubelet

# The first test may have to build the fake kubelet.
pytestmark = pytest.mark.timeout(180)

NAMESPACE = "audited"
LEVELS = ("Metadata", "Request", "RequestResponse")
# Groups choose the level; nobody is in no group, so for nobody the namespace does.
POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- {level: Metadata, userGroups: [record-Metadata]}
- {level: Request, userGroups: [record-Request]}
- {level: RequestResponse, userGroups: [record-RequestResponse-stripped], omitManagedFields: true}
- {level: RequestResponse, userGroups: [record-RequestResponse]}
- {level: Request, namespaces: [nobody-request]}
- {level: RequestResponse, namespaces: [nobody-requestresponse]}
- {level: Metadata}
"""
TARGET = "audited-target"
RECEIVED, STARTED, COMPLETE = "RequestReceived", "ResponseStarted", "ResponseComplete"
SHORT = (RECEIVED, COMPLETE)
LONG = (RECEIVED, STARTED, COMPLETE)
UNKNOWN = (STARTED,)

CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
ONE = f"{CONFIG_MAPS}/one"
TABLE = [("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")]
MERGE = [("Content-Type", "application/merge-patch+json")]
JSON_PATCH = [("Content-Type", "application/json-patch+json")]
APPLY = [("Content-Type", "application/apply-patch+yaml")]
PROTOBUF = [("Accept", "application/vnd.kubernetes.protobuf")]
DELETE_OPTIONS = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
# Whole, as the API server would write it: natively a body is recorded after it was decoded.
REVIEW = {
    "kind": "SelfSubjectReview",
    "apiVersion": "authentication.k8s.io/v1",
    "metadata": {},
    "status": {"userInfo": {}},
}
REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def config_map(name: str = "one") -> dict[str, Any]:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": {"a": "<&>"}}


@dataclass(frozen=True)
class Step:
    """A request, and what it is to find: `one` there or absent."""

    id: str
    method: str
    target: str
    body: Any = None
    headers: Sequence[Header] = ()
    status: int = 200
    stages: tuple[str, ...] = SHORT
    finds_one: bool = True
    extra: dict[str, Any] = field(default_factory=dict)


STEPS = [
    Step("get", "GET", ONE),
    Step("get-pretty", "GET", f"{ONE}?pretty=true"),
    Step("get-absent", "GET", f"{CONFIG_MAPS}/absent", status=404),
    Step("head", "HEAD", "/healthz"),
    Step("list", "GET", f"{CONFIG_MAPS}?limit=500"),
    Step("list-everywhere", "GET", "/api/v1/configmaps?limit=1&labelSelector=none%3Dsuch"),
    Step("list-by-name", "GET", f"{CONFIG_MAPS}?fieldSelector=metadata.name%3Done"),
    Step("table", "GET", CONFIG_MAPS, headers=TABLE),
    Step("create", "POST", CONFIG_MAPS, config_map(), status=201, finds_one=False),
    Step("create-dry", "POST", f"{CONFIG_MAPS}?dryRun=All", config_map(), status=201,
         finds_one=False),
    Step("create-again", "POST", CONFIG_MAPS, config_map(), status=409),
    Step("create-generated", "POST", f"{CONFIG_MAPS}?dryRun=All",
         {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"generateName": "new-"}},
         status=201, extra={"masks_names": True}),
    Step("create-invalid", "POST", CONFIG_MAPS, config_map("No_Name"), status=422),
    Step("create-elsewhere", "POST", "/api/v1/namespaces/absent/configmaps",
         {**config_map(), "metadata": {"name": "one"}}, status=404),
    Step("create-nonsense", "POST", CONFIG_MAPS, b"{nonsense", status=400),
    Step("create-other-kind", "POST", CONFIG_MAPS, {"kind": "Pod", "apiVersion": "v1"}, status=400),
    Step("create-unread", "POST", f"/api/v1/namespaces/{NAMESPACE}/secrets",
         {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "s"}}, status=403),
    Step("create-unknown-media", "POST", CONFIG_MAPS, b"abc", [("Content-Type", "text/x")],
         status=415),
    Step("review", "POST", REVIEWS, REVIEW, status=201),
    Step("update", "PUT", ONE, config_map()),
    Step("update-conflict", "PUT", ONE,
         {**config_map(), "metadata": {"name": "one", "resourceVersion": "1"}}, status=409),
    Step("update-of-another", "PUT", ONE,
         {**config_map(), "metadata": {"name": "one", "uid": "of-another"}}, status=409),
    Step("merge-patch", "PATCH", ONE, {"data": {"b": "2"}}, MERGE),
    Step("json-patch", "PATCH", ONE, b'[ {"op":"add","path":"/data/c","value":"3"} ]', JSON_PATCH),
    Step("apply", "PATCH", f"{ONE}?fieldManager=me&force=true", config_map(), APPLY),
    Step("patch-absent", "PATCH", f"{CONFIG_MAPS}/absent", {"data": {}}, MERGE, status=404),
    Step("patch-nonsense", "PATCH", ONE, b"{nonsense", MERGE, status=400),
    Step("delete", "DELETE", ONE),
    Step("delete-with-options", "DELETE", ONE, DELETE_OPTIONS),
    Step("delete-absent", "DELETE", f"{CONFIG_MAPS}/absent", status=404),
    Step("delete-collection", "DELETE", f"{CONFIG_MAPS}?labelSelector=none%3Dsuch"),
    Step("version", "GET", "/version"),
    Step("discovery-core", "GET", "/api"),
    Step("discovery-groups", "GET", "/apis"),
    Step("discovery-group", "GET", "/apis/apps"),
    Step("discovery-version", "GET", "/apis/apps/v1"),
    Step("health", "GET", "/healthz"),
    Step("nowhere", "GET", "/nowhere", status=403),
    Step("unknown-resource", "GET", "/api/v1/nothings", status=403),
    Step("not-found-page", "GET", "/version/absent", status=404),
    Step("options", "OPTIONS", ONE, status=405),
    Step("escapes", "GET", f"{CONFIG_MAPS}?limit=1&x=%3Cb%3E&y=<b>"),
    Step("long-agent", "GET", ONE, headers=[("User-Agent", "x" * 1500)]),
    Step("watch", "GET", f"{CONFIG_MAPS}?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Dx",
         stages=LONG),
    Step("watch-denied", "GET", f"/api/v1/namespaces/{NAMESPACE}/secrets?watch=1", status=403,
         stages=LONG),
    Step("watch-failed", "GET", f"{CONFIG_MAPS}?watch=1&resourceVersion=abc", status=500,
         stages=LONG),
    Step("log-absent", "GET", f"{PODS}/absent/log", status=404, stages=LONG),
    Step("exec-absent", "POST", f"{PODS}/absent/exec?command=id", status=404, stages=LONG),
    Step("bad-timeout", "GET", f"{CONFIG_MAPS}?timeout=abc", status=400, stages=UNKNOWN),
    # Impersonation.
    Step("as-user", "GET", CONFIG_MAPS, headers=as_user(TARGET)),
    Step("as-user-create", "POST", CONFIG_MAPS, config_map(), as_user(TARGET), status=201,
         finds_one=False),
    Step("as-user-path", "GET", "/version", headers=as_user(TARGET)),
    Step("as-user-watch", "GET", f"{CONFIG_MAPS}?watch=1&timeoutSeconds=1&resourceVersion=0"
         "&fieldSelector=metadata.name%3Dx", headers=as_user(TARGET), stages=LONG),
    Step("as-user-in-groups", "GET", CONFIG_MAPS, headers=as_user(TARGET, groups=["bears"])),
    Step("as-user-denied-by-cluster", "DELETE", ONE, headers=as_user(TARGET), status=403),
    Step("as-other-denied", "GET", CONFIG_MAPS, headers=as_user("stranger"), status=403),
    Step("as-other-create-denied", "POST", CONFIG_MAPS, config_map(), as_user("stranger"),
         status=403),
    Step("as-other-watch-denied", "GET", f"{CONFIG_MAPS}?watch=1", headers=as_user("stranger"),
         status=403, stages=LONG),
    Step("as-node-denied", "GET", "/api/v1/nodes", headers=as_node("n1"), status=403),
    Step("as-malformed", "GET", CONFIG_MAPS, headers=[("Impersonate-Group", "bears")], status=400),
    Step("as-itself-denied-path", "GET", "/metrics", headers=as_user(TARGET), status=403),
]  # fmt: skip

RULES: list[Rule] = [
    may("*", resources=["configmaps", "pods", "pods/log", "pods/exec"]),
    may("create", resources=["namespaces"]),
    {"verbs": ["*"], "nonResourceURLs": ["/version", "/version/*", "/healthz"]},
    may_be("user-info", "users", TARGET),
    may_do("user-info", "get", "list", "watch", "create", "delete", resources=["configmaps"]),
    may_visit("user-info", "/version"),
    may_impersonate("groups", "bears"),
    may_impersonate("users", TARGET),
]


@pytest.fixture(scope="module")
def native(control_plane: ControlPlane, plain_api_server: ApiServer) -> Iterator[ApiServer]:
    """A native server with the same policy as ours."""
    options = ApiServerOptions(
        name=fresh_name("native-audit"),
        constrained_impersonation=True,
        audit_policy=POLICY,
        # Whoever shows no credential is nobody here, as with us.
        extra_flags=("--anonymous-auth=false",),
    )
    with closing(control_plane.start_api_server(options)) as running:
        yield running


@pytest.fixture(scope="module")
def understudy(
    control_plane: ControlPlane,
    plain_api_server: ApiServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Understudy]:
    directory = tmp_path_factory.mktemp("audit-events")
    policy = directory / "policy.yaml"
    policy.write_text(POLICY)
    with running_understudy(
        control_plane, plain_api_server, directory, audit={"policyFile": str(policy)}
    ) as running:
        yield running


@pytest.fixture(scope="module")
def callers(
    control_plane: ControlPlane, plain_api_server: ApiServer, native: ApiServer
) -> dict[str, Caller]:
    """One caller for each level, all with the same rights, in a namespace of their own."""
    admin = plain_api_server.admin
    create_namespace(admin, NAMESPACE)
    cast, rights = Cast(control_plane, admin), Rights(plain_api_server, native)
    rights.grant(TARGET, may("get", "list", "watch", "create", resources=["configmaps"]))
    callers = {}
    for level in (*LEVELS, "RequestResponse-stripped"):
        groups = ("dev", f"record-{level}")
        callers[level] = cast.user("auditee", groups=groups, uid="auditee-uid")
        rights.grant(callers[level], *RULES)
    return callers


@dataclass(frozen=True)
class Both:
    """The two doors, and what was written behind each."""

    understudy: Understudy
    native: ApiServer
    admin: ApiClient

    def ask(self, credential: Credential, step: Step) -> tuple[list[Event], list[Event]]:
        """Ask the same at both doors, and return the events of each, ours first."""
        audit_id = fresh_name("audited")
        headers = [("Audit-ID", audit_id), *step.headers]
        doors = (self.native.client(credential), self.understudy.client(credential))
        for client in doors:
            self._set_scene(step)
            response = client.request(step.method, step.target, headers=headers, body=step.body)
            assert response.status == step.status, response
        return self.events(audit_id, step.stages)

    def events(self, audit_id: str, stages: Sequence[str]) -> tuple[list[Event], list[Event]]:
        logs = self.understudy.audit_log, self.native.audit_log
        ours, native = (events_of(log, audit_id, count=len(stages)) for log in logs)
        assert [event["stage"] for event in native] == list(stages)
        assert [event["stage"] for event in ours] == list(stages)
        return ours, native

    def _set_scene(self, step: Step) -> None:
        if step.finds_one:
            apply(self.admin, config_map())
        else:
            self.admin.request("DELETE", ONE)


@pytest.fixture(scope="module")
def both(understudy: Understudy, native: ApiServer, plain_api_server: ApiServer) -> Both:
    return Both(understudy, native, plain_api_server.admin)


def compare(ours: Sequence[Event], native: Sequence[Event]) -> None:
    for our, their in zip(ours, native, strict=True):
        assert masked(our) == masked(their)
        assert ordered(masked(our)) == ordered(masked(their))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.id)
def test_an_event_is_the_native_one(
    step: Step, level: str, both: Both, callers: dict[str, Caller]
) -> None:
    ours, native = both.ask(callers[level].credential, step)

    assert {event["level"] for event in ours} == {level if step.stages != UNKNOWN else "Metadata"}
    if step.extra.get("masks_names"):
        for event in (*ours, *native):
            event.get("responseObject", {}).get("metadata", {}).pop("name", None)
    compare(ours, native)


def test_a_new_object_of_the_cluster_is_named_by_its_body(
    both: Both, callers: dict[str, Caller]
) -> None:
    body = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "brand-new"}}
    step = Step("", "POST", "/api/v1/namespaces?dryRun=All", body, status=201)

    ours, native = both.ask(callers["Metadata"].credential, step)

    assert ours[1]["objectRef"] == {
        "resource": "namespaces",
        "name": "brand-new",
        "apiVersion": "v1",
    }
    compare(ours, native)


@pytest.mark.parametrize("most", [16_384, 1024], ids=["known", "unknown"])
@pytest.mark.parametrize(
    "query", ["x=" + "a" * 20_000, "x=" + "<&>" * 8_000], ids=["plain", "escapes"]
)
def test_a_long_value_is_cut_and_the_native_event_has_the_whole_of_it(
    query: str, most: int, both: Both, callers: dict[str, Caller]
) -> None:
    is_known = most > 1024
    credential = callers["Metadata"].credential if is_known else None
    status, stages = (200, SHORT) if is_known else (401, UNKNOWN)
    step = Step("", "GET", f"{CONFIG_MAPS}?{query}", status=status, stages=stages)

    ours, native = both.ask(credential, step)

    for our, their in zip(ours, native, strict=True):
        cut = read_event_cuts(our["annotations"])
        assert list(cut) == ["requestURI"]
        assert is_truncated_from(cut["requestURI"], their["requestURI"])
        assert our["annotations"].pop("audit.k8s.io/truncated") == "true"
        kept = our.pop("requestURI").removesuffix(TRUNCATION_MARKER)
        assert most - 32 < json_size(kept) + len(TRUNCATION_MARKER) <= most
        assert their.pop("requestURI").startswith(kept)
        if not our["annotations"].keys() - {f"{DOMAIN}/truncated"}:
            del our["annotations"]
    compare(ours, native)


@pytest.mark.parametrize("namespace", ["other", "nobody-request", "nobody-requestresponse"])
@pytest.mark.parametrize("query", ["", "?watch=1"], ids=["list", "watch"])
@pytest.mark.parametrize(
    "credential", [None, BearerToken("nonsense")], ids=["no-credential", "bad-token"]
)
def test_a_failed_login_leaves_one_event_of_nobody(
    credential: Credential, query: str, namespace: str, both: Both
) -> None:
    target = f"/api/v1/namespaces/{namespace}/pods{query}"

    ours, native = both.ask(credential, Step("", "GET", target, status=401, stages=UNKNOWN))

    assert ours[0]["user"] == {}
    assert ours[0]["responseStatus"]["message"] == "Unauthorized"
    assert ("responseObject" in ours[0]) == (namespace == "nobody-requestresponse")
    compare(ours, native)


@pytest.mark.parametrize("target", [CONFIG_MAPS, f"{CONFIG_MAPS}?watch=1&timeoutSeconds=1", ONE])
def test_managed_fields_are_left_out_where_the_policy_says_so(
    target: str, both: Both, callers: dict[str, Caller]
) -> None:
    stages = LONG if "watch" in target else SHORT

    for headers in ([], TABLE):
        step = Step("", "GET", target, headers=headers, stages=stages)
        ours, native = both.ask(callers["RequestResponse-stripped"].credential, step)
        whole, _ = both.ask(callers["RequestResponse"].credential, step)

        compare(ours, native)
        assert "managedFields" not in str(ours)
        assert ("managedFields" in str(whole)) == ("watch" not in target)


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_managed_fields_of_a_body_are_left_out_but_not_of_a_patch(
    method: str, both: Both, callers: dict[str, Caller]
) -> None:
    body = config_map()
    body["metadata"]["managedFields"] = [{}]
    headers = MERGE if method == "PATCH" else []

    step = Step("", method, ONE, body, headers)
    ours, native = both.ask(callers["RequestResponse-stripped"].credential, step)

    compare(ours, native)
    assert ("managedFields" in str(ours[1]["requestObject"])) == (method == "PATCH")


def test_a_body_that_is_not_json_is_noted_and_nothing_else_differs(
    both: Both, callers: dict[str, Caller]
) -> None:
    step = Step("", "GET", ONE, headers=PROTOBUF)

    ours, native = both.ask(callers["RequestResponse"].credential, step)

    assert native[1].pop("responseObject")["kind"] == "ConfigMap"
    assert ours[1]["annotations"]["kube-understudy.io/response-body"] == (
        "not recorded: application/vnd.kubernetes.protobuf"
    )
    compare(ours, native)


def test_a_compressed_answer_is_recorded(both: Both, callers: dict[str, Caller]) -> None:
    # The API server compresses what is longer than 128 KiB.
    big = config_map("big") | {"data": {"a": "b" * 150_000}}
    apply(both.admin, big)
    step = Step("", "GET", f"{CONFIG_MAPS}/big", headers=[("Accept-Encoding", "gzip")])

    ours, native = both.ask(callers["RequestResponse"].credential, step)

    compare(ours, native)
    assert int(ours[1]["annotations"]["kube-understudy.io/response-bytes"]) < 10_000


@pytest.mark.parametrize("level", LEVELS)
def test_a_body_that_is_too_long_is_noted(
    level: str, both: Both, callers: dict[str, Caller]
) -> None:
    big = config_map("big") | {"data": {"a": "b" * 300_000}}

    step = Step("", "PUT", f"{CONFIG_MAPS}/big", big)
    apply(both.admin, config_map("big"))
    ours, native = both.ask(callers[level].credential, step)

    note = "not recorded: longer than 262144 bytes"
    annotations = ours[1]["annotations"]
    assert annotations["kube-understudy.io/request-body"] == note
    assert (annotations.get("kube-understudy.io/response-body") == note) == (
        level == "RequestResponse"
    )
    for body in ("requestObject", "responseObject"):
        native[1].pop(body, None)
    compare(ours, native)


@pytest.fixture(scope="module")
def kubelet(control_plane: ControlPlane, native: ApiServer) -> Iterator[FakeKubelet]:
    with running_kubelet(
        control_plane, native, node="audited-node", namespace=NAMESPACE
    ) as running:
        yield running


@pytest.mark.parametrize("level", LEVELS)
def test_reading_a_log_is_told_when_it_begins(
    level: str, both: Both, callers: dict[str, Caller], kubelet: FakeKubelet
) -> None:
    target = f"{PODS}/{kubelet.create_pod()}/log"

    ours, native = both.ask(callers[level].credential, Step("", "GET", target, stages=LONG))

    compare(ours, native)


@pytest.mark.parametrize("level", LEVELS)
def test_a_command_is_told_when_it_begins_and_when_it_ends(
    level: str, both: Both, callers: dict[str, Caller], kubelet: FakeKubelet
) -> None:
    target = f"{PODS}/{kubelet.create_pod()}/exec?command=echo&command=hello&stdout=1"
    audit_id = fresh_name("audited")
    credential = callers[level].credential
    doors = (both.native.url, both.native.ca_pem), (
        both.understudy.process.url, both.understudy.process.ca_pem,
    )  # fmt: skip

    for url, ca_pem in doors:
        with WebSocket(
            url + target,
            context=client_context(ca_pem, credential),
            protocol="v4.channel.k8s.io",
            headers=[("Audit-ID", audit_id)],
        ) as socket:
            socket.receive()
    ours, native = both.events(audit_id, LONG)

    assert [event.get("responseStatus", {}).get("code") for event in ours] == [None, 101, 101]
    compare(ours, native)
    refused = Step("", "GET", target, status=400, stages=LONG)
    compare(*both.ask(credential, refused))


def test_a_slow_request_tells_where_its_time_went(both: Both, callers: dict[str, Caller]) -> None:
    audit_id = fresh_name("audited")
    doors = both.native, both.understudy.process

    for door in doors:
        with door.client(callers["Metadata"].credential).connect() as connection:
            head = (
                f"POST {CONFIG_MAPS}?dryRun=All HTTP/1.1\r\nHost: x\r\nAudit-ID: {audit_id}\r\n"
                f"Impersonate-User: {TARGET}\r\nContent-Type: application/json\r\n"
                "Content-Length: 2\r\n\r\n"
            )
            connection._stream.sendall(head.encode() + b"{")
            time.sleep(0.7)
            connection._stream.sendall(b"}")
            assert connection._stream.recv(20).startswith(b"HTTP/1.1 4")
    ours, native = both.events(audit_id, SHORT)

    prefix = "apiserver.latency.k8s.io/"
    told, expected = (
        {key: text for key, text in event["annotations"].items() if key.startswith(prefix)}
        for event in (ours[1], native[1])
    )
    assert set(told) == {
        f"{prefix}{layer}" for layer in ("authentication", "impersonation", "total")
    }
    assert set(told) <= set(expected)
    for text in told.values():
        assert re.fullmatch(r"[0-9.]+(µs|ms|s)", text)
    compare(ours, native)


def test_our_annotations_tell_how_the_decision_came_about(
    both: Both, callers: dict[str, Caller], control_plane: ControlPlane
) -> None:
    caller = Cast(control_plane, both.admin).user("fresh")
    Rights(both.native).grant(caller, *RULES)
    allowed = Step("", "GET", f"{CONFIG_MAPS}?limit=7", headers=as_user(TARGET))
    denied = Step("", "GET", CONFIG_MAPS, headers=as_user("stranger"), status=403)

    both.ask(caller.credential, allowed)
    (_, hit), _ = both.ask(caller.credential, allowed)
    (_, refused), _ = both.ask(caller.credential, denied)

    size = hit["annotations"].pop("kube-understudy.io/response-bytes")
    assert int(size) > 0
    assert hit["annotations"] == {
        "kube-understudy.io/cache": "hit",
        "kube-understudy.io/mode": "user-info",
        "kube-understudy.io/reviews": "0",
        "kube-understudy.io/upstream-code": "200",
    }
    told = refused["annotations"]
    assert told["kube-understudy.io/cache"] == "miss"
    assert int(told["kube-understudy.io/reviews"]) > 0
    assert told["kube-understudy.io/first-failed-check"] == (
        "impersonate:user-info users.authentication.k8s.io stranger"
    )
    assert "kube-understudy.io/upstream-code" not in told
