"""Our reading of rules and the API server's, question by question."""

import random
import sys
from collections import Counter
from itertools import product

import pytest

from proxy.core.authorization.access_check import (
    REVIEWS_PATH,
    AccessCheck,
    parse_review_status,
    subject_access_review,
)
from proxy.core.rbac.model import Binding, Manifest, read_rbac
from proxy.core.userinfo import UserInfo
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.objects import apply, create_namespace
from tests.support.control_plane import fresh_name
from tests.support.impersonation import Rights, may
from tests.support.sizes import sized

pytestmark = pytest.mark.timeout(180)

VERB = "impersonate-on:user-info:get"
VERBS = ([VERB], ["*"], ["impersonate-on:*"], ["get", VERB])
GROUPS = ([""], ["*"], ["authentication.k8s.io"], ["apps", ""])
RESOURCES = (
    ["pods"],
    ["*"],
    ["*/exec"],
    ["pods/exec"],
    ["pods/*"],
    ["*/*"],
    ["pod/exec"],
    ["userextras/*", "userextras/a.io/b"],
    ["*/a.io/b"],
)
NAMES: tuple[list[str], ...] = ([], ["web"], ["*"], ["", "web"])
PATHS = (["/version"], ["/version/*"], ["*"], ["/ver*"], ["/v**"], ["/*/x"], ["version"])
ASKED = [
    AccessCheck(UserInfo(""), verb, group=group, resource=resource, subresource=sub, name=name)
    for verb, group, (resource, sub), name in product(
        (VERB, "get"),
        ("", "authentication.k8s.io"),
        (
            ("pods", ""),
            ("pods", "exec"),
            ("pods", "*"),
            ("nodes", "exec"),
            ("userextras", "a.io/b"),
            ("userextras", "*"),
        ),
        ("", "web", "*"),
    )
] + [
    AccessCheck(UserInfo(""), verb, is_resource=False, path=path)
    for verb, path in product((VERB, "get"), ("/version", "/version/", "/version/x", "/a/x", "/"))
]


def rule(chance: random.Random) -> Manifest:
    if chance.random() < 0.25:
        return {"verbs": chance.choice(VERBS), "nonResourceURLs": chance.choice(PATHS)}
    return {
        "verbs": chance.choice(VERBS),
        "apiGroups": chance.choice(GROUPS),
        "resources": chance.choice(RESOURCES),
        "resourceNames": chance.choice(NAMES),
    }


def objects(name: str, namespace: str | None, rules: list[Manifest]) -> list[Manifest]:
    """Return a ClusterRole and its binding, everywhere or in a namespace."""
    group = "rbac.authorization.k8s.io"
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "accounts"}
    if namespace:
        # The account that a binding means without saying where is of its own namespace.
        subject.pop("namespace")
    return [
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": rules,
        },
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
            "metadata": {"name": name} | ({"namespace": namespace} if namespace else {}),
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [subject],
        },
    ]


def test_rules_match_as_the_server_matches_them(plain_api_server: ApiServer) -> None:
    admin, chance = plain_api_server.admin, random.Random(10)
    namespace = fresh_name("matching")
    create_namespace(admin, namespace)
    grants = []
    for number in range(sized(40, full=400)):
        home = namespace if number % 3 == 0 else None
        grants.append((home, objects(fresh_name("matched"), home, [rule(chance), rule(chance)])))
        for thing in grants[-1][1]:
            apply(admin, thing)
    rights = Rights(plain_api_server)
    rights.grant(fresh_name("marker"), may("get"))
    rights.grant(fresh_name("marker"), may("get"), namespace=namespace)
    seen: Counter[bool] = Counter()

    with admin.connect() as connection:
        for home, things in grants:
            rbac = read_rbac(things)
            for check in chance.sample(ASKED, 40):
                asked = _about(check, rbac.bindings[0], home or "accounts", namespace)
                response = connection.request(
                    "POST", REVIEWS_PATH, body=subject_access_review(asked)
                )
                theirs = parse_review_status(response.json()).allowed
                seen[theirs] += 1
                assert rbac.allows(asked) == theirs, (asked, rbac)

    sys.stdout.write(f"matched: {dict(seen)}\n")
    assert min(seen[True], seen[False]) > 30


def _about(check: AccessCheck, binding: Binding, home: str, namespace: str) -> AccessCheck:
    """Return a check about whoever is bound, in the one namespace that there is."""
    user = UserInfo(f"system:serviceaccount:{home}:{binding.name}")
    if not check.is_resource:
        return AccessCheck(user, check.verb, is_resource=False, path=check.path)
    return AccessCheck(
        user,
        check.verb,
        group=check.group,
        resource=check.resource,
        subresource=check.subresource,
        namespace=namespace,
        name=check.name,
    )
