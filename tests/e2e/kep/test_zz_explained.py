"""Impersonations that were denied in this package, out of the audit log: explained, and mended.

It comes last here by its name. Alone it has nothing to look back at. When soaking it takes all of
them, which takes all tests of this package: `UNDERSTUDY_SOAK=1 pytest tests/e2e/kep`.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from proxy.core.explain.recorded_request import read_request
from proxy.core.requestinfo.request_info import parse_request_info
from proxy.core.userinfo import AUTHENTICATED, UserInfo, service_account
from proxy.sandbox.api_client import ApiClient, APIResponse
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.identities import Credential
from proxy.sandbox.objects import token_for
from tests.e2e.kep.understudy import Understudy
from tests.explain_parity.command import Desk
from tests.explain_parity.neighbours import Question
from tests.explain_parity.trial import Bench, Tally
from tests.parity.wire import Client, Credentials
from tests.support.sizes import SOAK_SECONDS, sized, soak

POD_NAME = "authentication.kubernetes.io/pod-name"
FAILED_CHECK = "kube-understudy.io/first-failed-check"
WANTED = "kube-understudy.io/wanted"
METHODS = (b"GET", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS")
SOME = 40


@soak
@pytest.mark.timeout(SOAK_SECONDS)
def test_every_denial_that_a_grant_can_mend_is_mended_by_what_explain_prints(
    understudy: Understudy,
    control_plane: ControlPlane,
    plain_api_server: ApiServer,
    admin: ApiClient,
    tmp_path: Path,
) -> None:
    denied = list(denials(understudy.audit_log))
    if len(denied) < SOME:
        pytest.skip("only a run of all tests here can tell")
    kubeconfig = plain_api_server.kubeconfig_for(control_plane.admin, name="advice-admin")
    tally = Tally()
    bench = Bench(admin, Desk(kubeconfig), tally)
    mended_meanwhile = 0

    for event in denied[:: sized(3, full=1)]:
        file = tmp_path / "event.json"
        file.write_text(json.dumps(event))
        told = bench.desk.explain_event(file)
        if told["mayAct"]:
            # A right was given later, as the test went on.
            mended_meanwhile += 1
            continue
        request = read_request(event)
        assert request.wanted_user is not None
        question = Question(method_of(event), event["requestURI"].encode(), request.wanted_user)
        credential = credential_of(request.caller.user, control_plane, admin)
        credentials = Credentials(credential, ca_pem=understudy.process.ca_pem)
        with closing(Client(understudy.process.url, credentials)) as client:
            bench.judge(request.caller.user, question, sender(client), told)

    sys.stdout.write(f"{len(denied)} denials, {mended_meanwhile} allowed by now: {tally}\n")
    assert tally.fixed >= len(denied) // sized(6, full=2)
    assert tally.neighbours.total() > 2 * tally.fixed
    assert tally.hopeless.total() > 0


def denials(audit_log: Path) -> Iterator[dict[str, Any]]:
    """Yield the events of impersonations that a check has denied, each kind once."""
    seen = set()
    for line in audit_log.read_bytes().splitlines():
        event = json.loads(line)
        annotations = event.get("annotations", {})
        # An identity of a thousand groups is too long for an event.
        if FAILED_CHECK not in annotations or WANTED not in annotations:
            continue
        who = (event["user"]["username"], annotations[WANTED])
        key = (*who, event["verb"], event["requestURI"])
        if key not in seen:
            seen.add(key)
            yield event


def method_of(event: dict[str, Any]) -> bytes:
    target = event["requestURI"].encode()
    return next(
        method for method in METHODS if parse_request_info(method, target).verb == event["verb"]
    )


def credential_of(caller: UserInfo, control_plane: ControlPlane, admin: ApiClient) -> Credential:
    """Return something by which the proxy takes somebody for the same caller again."""
    account = service_account(caller.name)
    if account is None:
        groups = [group for group in caller.groups if group != AUTHENTICATED]
        return control_plane.clients.issue_client(
            caller.name, groups=groups, uid=caller.uid or None
        )
    pod = None
    if name := dict(caller.extra).get(POD_NAME):
        pod = admin.call("GET", f"/api/v1/namespaces/{account.namespace}/pods/{name[0]}")
    return token_for(admin, account.namespace, account.name, pod=pod)


def sender(client: Client) -> Any:
    def send(question: Question) -> APIResponse:
        return client.send(question.method, question.target, question.headers, None)

    return send
