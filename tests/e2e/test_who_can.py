"""Who may act as somebody, told of a real cluster, and everyone tried there one by one."""

import json
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from proxy.core.authorization.access_check import (
    REVIEWS_PATH,
    AccessCheck,
    CheckResult,
    parse_review_status,
    subject_access_review,
)
from proxy.core.impersonation.checks import Attempt
from proxy.core.impersonation.evaluation import Allowed, Ask, evaluate
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.rbac.model import UNNAMED_USER, Rule, Subject, implied_groups
from proxy.core.requestinfo.request_info import parse_request_info
from proxy.core.userinfo import UserInfo
from proxy.sandbox.api_client import ApiClient, ApiConnection
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.objects import apply, create_namespace
from tests.explain_parity.command import run
from tests.properties.universes import attempt_of
from tests.support.control_plane import fresh_name
from tests.support.impersonation import Rights, may, may_impersonate
from tests.support.sizes import sized

pytestmark = pytest.mark.timeout(240)

AUTHENTICATION = "authentication.k8s.io"


@dataclass(frozen=True, slots=True)
class Universe:
    """People and groups that nothing else in the cluster knows, and RBAC between them."""

    namespace: str
    names: tuple[str, ...]
    groups: tuple[str, ...]
    target: str

    def subjects(self) -> list[Subject]:
        accounts = [Subject("ServiceAccount", "one", self.namespace)]
        users = [Subject("User", name) for name in self.names if not name.startswith("system:")]
        own = f"system:serviceaccounts:{self.namespace}"
        return [*accounts, *users, *(Subject("Group", group) for group in (*self.groups, own))]

    def everybody(self) -> Iterator[UserInfo]:
        for name in self.names:
            for count in range(len(self.groups) + 1):
                for more in combinations(self.groups, count):
                    yield UserInfo(name, groups=(*more, *implied_groups(name)))


def universe(admin: ApiClient) -> Universe:
    namespace = fresh_name("universe")
    create_namespace(admin, namespace)
    names = (
        f"{namespace}-alice",
        f"{namespace}-bob",
        UNNAMED_USER,
        f"system:serviceaccount:{namespace}:one",
        f"system:serviceaccount:{namespace}:two",
    )
    return Universe(
        namespace, names, (f"{namespace}-dev", f"{namespace}-ops"), f"{namespace}-carol"
    )


def populate(admin: ApiClient, world: Universe, chance: random.Random) -> None:
    """Bind a few rules to a few subjects, so that some have all it takes and some nearly."""
    for _ in range(chance.randint(3, 7)):
        name = fresh_name("binding")
        is_local = chance.random() < 0.4
        rules = [_rule(world, chance) for _ in range(chance.randint(1, 2))]
        subjects = chance.sample(world.subjects(), chance.randint(1, 2))
        for thing in _objects(name, world.namespace if is_local else "", rules, subjects):
            apply(admin, thing)


def _rule(world: Universe, chance: random.Random) -> Rule:
    mode = chance.choice(
        [
            ImpersonationMode.USER_INFO,
            ImpersonationMode.USER_INFO,
            ImpersonationMode.USER_INFO,
            ImpersonationMode.LEGACY,
        ]
    )
    kind = chance.choice(["user", "groups", "action", "action", "everything"])
    group = "" if mode is ImpersonationMode.LEGACY else AUTHENTICATION
    names = chance.choice([(), (world.target,)])
    if kind == "user":
        return Rule((mode.identity_verb,), (group,), ("users",), names)
    if kind == "groups":
        listed = chance.choice([(), ("a", "b"), ("a", "b", "c", "d"), ("*",)])
        return Rule((mode.identity_verb,), (group,), ("groups",), listed)
    if kind == "everything":
        return Rule((ImpersonationMode.USER_INFO.identity_verb,), ("*",), ("*",))
    verbs = chance.choice([("list",), ("get", "list"), ("get",)])
    return Rule(tuple(map(ImpersonationMode.USER_INFO.action_verb, verbs)), ("",), ("pods",))


def _objects(
    name: str, namespace: str, rules: Sequence[Rule], subjects: Sequence[Subject]
) -> Iterator[dict[str, Any]]:
    group, metadata = "rbac.authorization.k8s.io", {"name": name}
    kind = "ClusterRoleBinding"
    yield {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRole",
        "metadata": metadata,
        "rules": [
            {
                "verbs": rule.verbs,
                "apiGroups": rule.groups,
                "resources": rule.resources,
                **({"resourceNames": rule.names} if rule.names else {}),
            }
            for rule in rules
        ],
    }
    if namespace:
        kind, metadata = "RoleBinding", {"name": name, "namespace": namespace}
    yield {
        "apiVersion": f"{group}/v1",
        "kind": kind,
        "metadata": metadata,
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [
            {"kind": one.kind, "name": one.name, "namespace": one.namespace}
            if one.kind == "ServiceAccount"
            else {"kind": one.kind, "apiGroup": group, "name": one.name}
            for one in subjects
        ],
    }


@pytest.fixture(scope="module")
def kubeconfig(control_plane: ControlPlane, plain_api_server: ApiServer) -> Path:
    return plain_api_server.kubeconfig_for(control_plane.admin, name="who-can-admin")


def test_who_can_equals_brute_force_by_reviews(
    plain_api_server: ApiServer, kubeconfig: Path
) -> None:
    admin, rights, chance = plain_api_server.admin, Rights(plain_api_server), random.Random(10)
    seen: Counter[str] = Counter()
    with admin.connect() as connection:
        for _ in range(sized(8, full=60)):
            world = universe(admin)
            populate(admin, world, chance)
            groups = chance.choice([(), ("a",), ("a", "b", "c", "d")])
            # Whoever knows of these knows of what came before.
            rights.grant(fresh_name("marker"), may("get"))
            rights.grant(fresh_name("marker"), may("get"), namespace=world.namespace)

            told = who_can(kubeconfig, world, groups)

            assert all(one["reviewed"] for one in told), told
            seen.update(compare(connection, world, groups, told))

    sys.stdout.write(f"who-can: {dict(seen)}\n")
    assert seen["allowed"] > 20
    assert seen["denied"] > 100


def who_can(kubeconfig: Path, world: Universe, groups: Sequence[str]) -> list[dict[str, Any]]:
    said = run(
        "who-can",
        "--as",
        world.target,
        *(f"--as-group={group}" for group in groups),
        "list",
        "pods",
        "-n",
        world.namespace,
        "-o",
        "json",
        f"--kubeconfig={kubeconfig}",
    )
    told: list[dict[str, Any]] = json.loads(said.output)
    return told


def compare(
    connection: ApiConnection, world: Universe, groups: Sequence[str], told: list[dict[str, Any]]
) -> Iterator[str]:
    """Try everyone, in every mode, and say what came of it."""
    request_info = parse_request_info(b"GET", f"/api/v1/namespaces/{world.namespace}/pods".encode())
    wanted_user = UserInfo(world.target, groups=tuple(groups))
    for mode in (ImpersonationMode.USER_INFO, ImpersonationMode.LEGACY):
        for user in world.everybody():
            attempt = attempt_of(user, mode, wanted_user, request_info)
            assert attempt is not None
            is_allowed = decide(connection, replace(attempt, caller=user))
            is_told = any(
                one["mode"] == mode
                and one["user"] in {None, user.name}
                and set(one["groups"]) <= set(user.groups)
                for one in told
            )
            assert is_told == is_allowed, (user, mode, told)
            yield "allowed" if is_allowed else "denied"


def decide(connection: ApiConnection, attempt: Attempt) -> bool:
    evaluation = evaluate([attempt])
    try:
        question = next(evaluation)
        while True:
            allowed = isinstance(question, Ask) and review(connection, question.check)
            question = evaluation.send(CheckResult(allowed))
    except StopIteration as stop:
        return isinstance(stop.value, Allowed)


def review(connection: ApiConnection, check: AccessCheck) -> bool:
    response = connection.request("POST", REVIEWS_PATH, body=subject_access_review(check))
    return parse_review_status(response.json()).allowed


def test_masters_are_found_by_legacy(plain_api_server: ApiServer, kubeconfig: Path) -> None:
    rights = Rights(plain_api_server)
    both, users, groups = (fresh_name("legacy") for _ in range(3))
    for name in (both, users):
        rights.grant(name, may_impersonate("users", "root"))
    for name in (both, groups):
        rights.grant(name, may_impersonate("groups", "system:masters"))

    said = run("who-can", "--as-masters", "-o", "json", f"--kubeconfig={kubeconfig}")

    # Who is in a group besides may more; these are who they are, and nothing else.
    told = {one["user"]: one for one in json.loads(said.output) if not one["groups"]}
    assert told[both]["as"] == "root in system:masters"
    assert told[both]["reviewed"] is True
    assert users not in told
    assert groups not in told


def test_any_node_is_told_from_one_node(plain_api_server: ApiServer, kubeconfig: Path) -> None:
    rights = Rights(plain_api_server)
    verbs = {"verbs": ["impersonate:arbitrary-node"], "apiGroups": [AUTHENTICATION]}
    some, every = fresh_name("some"), fresh_name("every")
    on = {"verbs": ["impersonate-on:arbitrary-node:list"], "apiGroups": [""], "resources": ["pods"]}
    rights.grant(some, {**verbs, "resources": ["nodes"], "resourceNames": ["n1"]}, on)
    rights.grant(every, {**verbs, "resources": ["nodes"]}, on)
    options = ("list", "pods", "-A", "-o", "json", f"--kubeconfig={kubeconfig}")

    any_node = json.loads(run("who-can", "--as-any-node", *options).output)
    one_node = json.loads(run("who-can", "--as", "system:node:n1", *options).output)

    assert {some, every} & {one["user"] for one in any_node} == {every}
    assert {some, every} & {one["user"] for one in one_node} == {some, every}


def test_the_table_says_it_in_words(plain_api_server: ApiServer, kubeconfig: Path) -> None:
    name, target = fresh_name("jane"), fresh_name("target")
    Rights(plain_api_server).grant(name, may_impersonate("users", target))

    said = run("who-can", "--as", target, "list", "pods", "-A", f"--kubeconfig={kubeconfig}")

    lines = [line.split() for line in said.output.splitlines()]
    assert said.code == 0
    assert lines[0] == ["SUBJECT", "AS", "MODE", "BY", "REVIEWED"]
    assert next(line for line in lines if line[0] == name)[1:3] == [target, "legacy"]
    assert "group system:masters" in said.output
