"""`docs/troubleshooting-denials.md`, followed step by step: messages, commands, rules."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from proxy.sandbox.api_client import ApiClient, APIResponse
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from tests.e2e.kep.cast import Cast
from tests.e2e.kep.understudy import Understudy, complete_event, running_understudy
from tests.support.impersonation import Caller, Rights, Rule, as_user, may, message_of
from tests.support.kubectl import Kubectl

DOCUMENT = (Path(__file__).parents[2] / "docs" / "troubleshooting-denials.md").read_text()
PODS = "/api/v1/namespaces/default/pods"
FENCE = re.compile(r"^```(yaml)?\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def understudy(
    control_plane: ControlPlane,
    plain_api_server: ApiServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Understudy]:
    directory = tmp_path_factory.mktemp("denied")
    with running_understudy(control_plane, plain_api_server, directory) as running:
        yield running


@pytest.fixture
def cast(control_plane: ControlPlane, admin: ApiClient) -> Cast:
    return Cast(control_plane, admin)


@pytest.fixture
def rights(plain_api_server: ApiServer) -> Rights:
    return Rights(plain_api_server)


@pytest.fixture
def kubectl(control_plane: ControlPlane, plain_api_server: ApiServer) -> Kubectl:
    kubeconfig = plain_api_server.kubeconfig_for(control_plane.admin, name="denied")
    return Kubectl(control_plane.binaries.kubectl, kubeconfig)


def is_about(command: str, verb: str) -> bool:
    """Tell whether a command asks about exactly this verb."""
    asks = command.startswith(("kubectl auth can-i", "kubectl create"))
    return asks and re.search(rf"[ \"]{verb}[ \"]", command) is not None


class Reader:
    """Somebody who reads the document about two people of their own."""

    def __init__(self, deputy: Caller, alice: Caller, kubectl: Kubectl) -> None:
        self.deputy = deputy
        self.alice = alice
        self._kubectl = kubectl
        blocks = FENCE.findall(self._in_ones_own_words(DOCUMENT))
        self.said = [text.strip() for kind, text in blocks if not kind]
        self._yaml = [text for kind, text in blocks if kind]

    def rule(self, verb: str) -> Rule:
        """Return the rule of the document that grants a verb."""
        for text in self._yaml:
            document = yaml.safe_load(text)
            for rule in document["rules"] if isinstance(document, dict) else document:
                if verb in rule["verbs"] and "resources" in rule:
                    found: Rule = rule
                    return found
        raise AssertionError(verb)

    def is_allowed(self, verb: str, who: str) -> bool:
        """Run the document's command about a verb, as a shell would."""
        command = next(one for one in self.said if is_about(one, verb))
        assert who in command
        line, _, here = command.partition("\n")
        words = shlex.split(line.removesuffix("<<END"))
        done = self._kubectl.run(*words[1:], stdin=here.removesuffix("END").encode())
        assert done.stdout.strip() in {b"yes", b"no", b"true", b"false"}, done.stderr
        return done.stdout.strip() in {b"yes", b"true"}

    def _in_ones_own_words(self, text: str) -> str:
        return re.sub(r"\bdeputy\b", self.deputy.name, re.sub(r"\balice\b", self.alice.name, text))


@pytest.fixture
def reader(cast: Cast, kubectl: Kubectl) -> Reader:
    return Reader(cast.user("deputy"), cast.user("alice"), kubectl)


def list_pods(understudy: Understudy, reader: Reader) -> APIResponse:
    client = understudy.client(reader.deputy.credential)
    return client.request("GET", PODS, headers=as_user(reader.alice.name))


@pytest.mark.parametrize("step", ["action", "identity", "target"])
def test_each_step_leads_to_the_next(
    step: str, understudy: Understudy, reader: Reader, rights: Rights
) -> None:
    verbs = {
        "action": ("impersonate-on:user-info:list", reader.deputy),
        "identity": ("impersonate:user-info", reader.deputy),
        "target": ("list", reader.alice),
    }
    reached = list(verbs)[: list(verbs).index(step)]
    for earlier in reached:
        rights.grant(reader.deputy, reader.rule(verbs[earlier][0]))
    verb, who = verbs[step]

    denied = list_pods(understudy, reader)
    before = reader.is_allowed(verb, who.name)
    rights.grant(who, may("list") if step == "target" else reader.rule(verb))
    after, response = reader.is_allowed(verb, who.name), list_pods(understudy, reader)

    assert denied.status == 403
    assert message_of(denied) in reader.said
    assert (before, after) == (False, True)
    assert response.status == (200 if step == "target" else 403)
    assert step == "target" or message_of(response) != message_of(denied)


def test_the_audit_log_tells_what_was_denied_first(understudy: Understudy, reader: Reader) -> None:
    denied = list_pods(understudy, reader)

    event = complete_event(understudy.audit_log, denied.header("Audit-Id") or "")

    first = event["annotations"]["kube-understudy.io/first-failed-check"]
    assert first == "impersonate-on:user-info:list pods in default"
    assert event["responseStatus"]["code"] == 403
