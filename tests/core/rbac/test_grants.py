"""The smallest RBAC for what somebody needs."""

from dataclasses import replace

import pytest

from proxy.core.impersonation.checks import ImpersonationRules
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.rbac.grants import (
    GrantObject,
    GrantPurpose,
    GrantRequirement,
    UngrantableError,
    grant_objects,
    needed_checks,
    rbac_objects_for,
)
from proxy.core.rbac.model import Rule, Subject, read_rbac
from proxy.core.requestinfo.request_info import RequestInfo, parse_request_info
from proxy.core.userinfo import UserInfo, make_extra

DESK = Subject("ServiceAccount", "desk", "tools")
JANE = Subject("User", "jane")
ALICE = UserInfo("alice")


def action(method: str, target: str) -> RequestInfo:
    return parse_request_info(method.encode(), target.encode())


LIST_PODS = action("GET", "/api/v1/namespaces/shop/pods")
GET_POD = action("GET", "/api/v1/namespaces/shop/pods/web")
VERSION = action("GET", "/version")
NEED = GrantRequirement(JANE, ImpersonationMode.USER_INFO, ALICE, (LIST_PODS,))


def rules_of(objects: list[GrantObject]) -> dict[tuple[str, str], list[Rule]]:
    """Return the rules by kind of role and namespace."""
    found: dict[tuple[str, str], list[Rule]] = {}
    for binding in read_rbac(objects).bindings:
        kind = binding.role.partition("/")[0]
        found.setdefault((kind, binding.namespace), []).extend(binding.rules)
    return found


def identity(mode: str, resource: str, *names: str) -> Rule:
    return Rule((f"impersonate:{mode}",), ("authentication.k8s.io",), (resource,), names)


def on(mode: str, *verbs: str, resource: str = "pods", names: tuple[str, ...] = ()) -> Rule:
    return Rule(tuple(f"impersonate-on:{mode}:{verb}" for verb in verbs), ("",), (resource,), names)


def test_a_user_and_one_action_in_a_namespace() -> None:
    objects = grant_objects([NEED], name="desk")

    labels = {"app.kubernetes.io/managed-by": "understudy"}
    version = "rbac.authorization.k8s.io/v1"
    group = "rbac.authorization.k8s.io"
    subjects = [{"kind": "User", "apiGroup": group, "name": "jane"}]
    assert objects == [
        {
            "apiVersion": version,
            "kind": "ClusterRole",
            "metadata": {"name": "desk", "labels": labels},
            "rules": [
                {
                    "apiGroups": ["authentication.k8s.io"],
                    "resources": ["users"],
                    "resourceNames": ["alice"],
                    "verbs": ["impersonate:user-info"],
                }
            ],
        },
        {
            "apiVersion": version,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "desk", "labels": labels},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "desk"},
            "subjects": subjects,
        },
        {
            "apiVersion": version,
            "kind": "Role",
            "metadata": {"name": "desk", "namespace": "shop", "labels": labels},
            "rules": [
                {
                    "apiGroups": [""],
                    "resources": ["pods"],
                    "verbs": ["impersonate-on:user-info:list"],
                }
            ],
        },
        {
            "apiVersion": version,
            "kind": "RoleBinding",
            "metadata": {"name": "desk", "namespace": "shop", "labels": labels},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "desk"},
            "subjects": subjects,
        },
    ]


CASES = [
    pytest.param(
        replace(
            NEED,
            wanted_user=UserInfo("alice", "7", ("dev", "ops"), make_extra({"a.io/b": ["1", "2"]})),
        ),
        {
            ("ClusterRole", ""): [
                identity("user-info", "groups", "dev", "ops"),
                identity("user-info", "uids", "7"),
                identity("user-info", "userextras/a.io/b", "1", "2"),
                identity("user-info", "users", "alice"),
            ],
            ("Role", "shop"): [on("user-info", "list")],
        },
        id="every part of an identity is named",
    ),
    pytest.param(
        replace(NEED, wanted_user=UserInfo("alice", groups=("a", "b", "c", "d", "e"))),
        {
            ("ClusterRole", ""): [
                identity("user-info", "groups", "a", "b", "c", "d", "e"),
                identity("user-info", "users", "alice"),
            ],
            ("Role", "shop"): [on("user-info", "list")],
        },
        id="many groups are granted one by one, never by a star",
    ),
    pytest.param(
        replace(
            NEED,
            mode=ImpersonationMode.SERVICE_ACCOUNT,
            wanted_user=UserInfo("system:serviceaccount:bank:teller"),
        ),
        {
            ("Role", "bank"): [identity("serviceaccount", "serviceaccounts", "teller")],
            ("Role", "shop"): [on("serviceaccount", "list")],
        },
        id="a service account is granted where it lives",
    ),
    pytest.param(
        replace(
            NEED, mode=ImpersonationMode.ARBITRARY_NODE, wanted_user=UserInfo("system:node:n1")
        ),
        {
            ("ClusterRole", ""): [identity("arbitrary-node", "nodes", "n1")],
            ("Role", "shop"): [on("arbitrary-node", "list")],
        },
        id="a node is granted without its prefix",
    ),
    pytest.param(
        replace(
            NEED,
            subject=DESK,
            mode=ImpersonationMode.ASSOCIATED_NODE,
            wanted_user=UserInfo("system:node:n1"),
        ),
        {
            ("ClusterRole", ""): [identity("associated-node", "nodes")],
            ("Role", "shop"): [on("associated-node", "list")],
        },
        id="the own node is granted without a name",
    ),
    pytest.param(
        replace(NEED, request_infos=(GET_POD, VERSION, action("GET", "/api/v1/nodes/n1"))),
        {
            ("ClusterRole", ""): [
                on("user-info", "get", resource="nodes", names=("n1",)),
                identity("user-info", "users", "alice"),
                Rule(("impersonate-on:user-info:get",), paths=("/version",)),
            ],
            ("Role", "shop"): [on("user-info", "get", names=("web",))],
        },
        id="names, nodes and paths",
    ),
    pytest.param(
        replace(
            NEED,
            request_infos=(
                action("GET", "/api/v1/namespaces/shop/pods/web/exec"),
                action("POST", "/apis/apps/v1/namespaces/shop/deployments"),
                action("GET", "/api/v1/namespaces/shop"),
            ),
        ),
        {
            ("ClusterRole", ""): [identity("user-info", "users", "alice")],
            ("Role", "shop"): [
                on("user-info", "get", resource="namespaces", names=("shop",)),
                on("user-info", "get", resource="pods/exec", names=("web",)),
                Rule(("impersonate-on:user-info:create",), ("apps",), ("deployments",)),
            ],
        },
        id="subresources, groups, and a namespace in itself",
    ),
    pytest.param(
        replace(
            NEED,
            request_infos=(action("GET", "/api/v1/namespaces/shop/pods/web/exec"),),
            rules=ImpersonationRules(upgrade_needs_create=True),
            is_upgrade=True,
        ),
        {
            ("ClusterRole", ""): [identity("user-info", "users", "alice")],
            ("Role", "shop"): [
                on("user-info", "create", "get", resource="pods/exec", names=("web",))
            ],
        },
        id="a second check that the plan asks for",
    ),
]


@pytest.mark.parametrize(("need", "expected"), CASES)
def test_a_need_becomes_these_rules(
    need: GrantRequirement, expected: dict[tuple[str, str], list[Rule]]
) -> None:
    objects = grant_objects([need])

    assert rules_of(objects) == expected


@pytest.mark.parametrize("need", [case.values[0] for case in CASES], ids=[c.id for c in CASES])
def test_what_is_granted_answers_every_check(need: GrantRequirement) -> None:
    rbac = read_rbac(grant_objects([need]))

    checks = needed_checks(need)

    name = "jane" if need.subject == JANE else "system:serviceaccount:tools:desk"
    assert all(rbac.allows(replace(check, user=UserInfo(name))) for check in checks)
    assert not any(rbac.allows(replace(check, user=UserInfo("bob"))) for check in checks)


def test_needs_are_merged_where_nothing_is_added_by_it() -> None:
    deployments = action("GET", "/apis/apps/v1/namespaces/shop/deployments")
    watch = action("GET", "/api/v1/namespaces/shop/pods?watch=1")
    events = action("GET", "/api/v1/namespaces/shop/events")

    objects = grant_objects([replace(NEED, request_infos=(LIST_PODS, watch, deployments, events))])

    assert rules_of(objects)["Role", "shop"] == [
        on("user-info", "list", resource="events"),
        on("user-info", "list", "watch"),
        Rule(("impersonate-on:user-info:list",), ("apps",), ("deployments",)),
    ]


def test_what_holds_everywhere_is_not_said_again() -> None:
    everywhere = action("GET", "/api/v1/pods")
    one = replace(GET_POD, name="")
    patterns = (replace(VERSION, path="/api/*"), replace(VERSION, path="/api/v1"))

    objects = grant_objects(
        [
            replace(
                NEED,
                request_infos=(LIST_PODS, everywhere, GET_POD, one, *patterns),
                has_patterns=True,
            )
        ]
    )

    assert rules_of(objects) == {
        ("ClusterRole", ""): [
            on("user-info", "list"),
            identity("user-info", "users", "alice"),
            Rule(("impersonate-on:user-info:get",), paths=("/api/*",)),
        ],
        ("Role", "shop"): [on("user-info", "get")],
    }


def test_a_namespace_that_needs_nothing_of_its_own_gets_nothing() -> None:
    objects = grant_objects(
        [replace(NEED, request_infos=(LIST_PODS, action("GET", "/api/v1/pods")))]
    )

    assert set(rules_of(objects)) == {("ClusterRole", "")}


def test_equal_rights_are_one_role_with_all_who_hold_it() -> None:
    objects = grant_objects([NEED, replace(NEED, subject=DESK)], name="desk")

    assert [thing["kind"] for thing in objects] == [
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
    ]
    assert objects[1]["subjects"] == [
        {"kind": "ServiceAccount", "name": "desk", "namespace": "tools"},
        {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"},
    ]


def test_different_rights_under_one_name_do_not_take_each_others_place() -> None:
    other = replace(NEED, subject=Subject("Group", "ops"), wanted_user=UserInfo("bob"))

    objects = grant_objects([NEED, other], name="desk")

    keys = [(str(thing["kind"]), str(thing["metadata"])) for thing in objects]
    assert len(set(keys)) == len(keys)


def test_names_say_who_and_tell_grants_apart() -> None:
    first = grant_objects([replace(NEED, subject=Subject("User", "a/b %\u00fc"))])
    again = grant_objects([replace(NEED, subject=Subject("User", "a/b %\u00fc"))])
    other = grant_objects(
        [replace(NEED, subject=Subject("User", "a/b %\u00fc"), request_infos=(VERSION,))]
    )

    assert first == again
    assert str(first[0]["metadata"]).startswith("{'name': 'understudy:a-b---:")
    assert first[0]["metadata"] != other[0]["metadata"]


def test_the_order_of_needs_does_not_matter() -> None:
    others = [replace(NEED, wanted_user=UserInfo("bob"), request_infos=(GET_POD, VERSION)), NEED]

    assert grant_objects(others) == grant_objects(reversed(others))


@pytest.mark.parametrize(
    ("need", "why"),
    [
        pytest.param(
            replace(NEED, wanted_user=UserInfo("alice", groups=("system:masters",))),
            "impersonating the system:masters group is not allowed",
            id="masters",
        ),
        pytest.param(
            replace(NEED, wanted_user=UserInfo("alice", extra=make_extra({"scopes": ["a"]}))),
            "impersonating an invalid key in extra is not allowed",
            id="extra key",
        ),
        pytest.param(replace(NEED, mode=ImpersonationMode.LEGACY), "is never granted", id="legacy"),
        pytest.param(
            replace(NEED, wanted_user=UserInfo("system:node:n1")),
            "nodes and service accounts have their own modes",
            id="a node as a user",
        ),
        pytest.param(
            replace(
                NEED,
                mode=ImpersonationMode.ARBITRARY_NODE,
                wanted_user=UserInfo("system:node:n1", "7"),
            ),
            "with groups, a uid or extras",
            id="a node with a uid",
        ),
        pytest.param(
            replace(NEED, mode=ImpersonationMode.ARBITRARY_NODE),
            "arbitrary-node mode does not apply to alice",
            id="a user as a node",
        ),
        pytest.param(
            replace(
                NEED, mode=ImpersonationMode.ASSOCIATED_NODE, wanted_user=UserInfo("system:node:n1")
            ),
            "for a subject that is not a service account",
            id="a user has no node",
        ),
        pytest.param(
            replace(NEED, request_infos=(action("GET", "/version/*"),)),
            "would allow more than this path",
            id="a path that ends in a star",
        ),
        pytest.param(
            replace(NEED, request_infos=(action("GET", "/api/v1/*"),)),
            "would allow all of them",
            id="a resource called star",
        ),
        pytest.param(
            replace(NEED, request_infos=(action("GET", "/apis/*/v1/pods"),)),
            "would allow all of them",
            id="a group called star",
        ),
        pytest.param(
            replace(NEED, request_infos=(action("GET", "/api/v1/namespaces/Bad_/pods"),)),
            "no role in a namespace called 'Bad_'",
            id="a namespace that cannot be",
        ),
    ],
)
def test_what_no_grant_can_allow_is_refused_with_the_reason(
    need: GrantRequirement, why: str
) -> None:
    with pytest.raises(UngrantableError) as refused:
        grant_objects([need])

    assert why in str(refused.value)


def test_a_group_may_act_as_the_own_nodes_of_its_service_accounts() -> None:
    group = Subject("Group", "system:serviceaccounts:tools")
    need = GrantRequirement(
        group, ImpersonationMode.ASSOCIATED_NODE, UserInfo("system:node:n1"), (LIST_PODS,)
    )

    objects = grant_objects([need])

    assert rules_of(objects)["ClusterRole", ""] == [identity("associated-node", "nodes")]


def test_checks_that_were_denied_are_granted_as_they_are() -> None:
    action_check, user_check = needed_checks(NEED)

    assert rules_of(rbac_objects_for(JANE, [user_check])) == {
        ("ClusterRole", ""): [identity("user-info", "users", "alice")]
    }
    assert rules_of(rbac_objects_for(JANE, [action_check])) == {
        ("Role", "shop"): [on("user-info", "list")]
    }
    with pytest.raises(UngrantableError):
        rbac_objects_for(JANE, [replace(action_check, resource="*")])


def test_purpose_is_in_the_annotations_of_every_object_and_not_in_its_name() -> None:
    purpose = GrantPurpose("jane", "alice", "list pods", "understudy explain", "2026-11-18")

    plain, annotated = grant_objects([NEED]), grant_objects([NEED], purpose=purpose)

    for one, other in zip(plain, annotated, strict=True):
        without, given = one["metadata"], other["metadata"]
        assert isinstance(without, dict)
        assert isinstance(given, dict)
        assert given.pop("annotations") == {
            "kube-understudy.io/caller": "jane",
            "kube-understudy.io/as": "alice",
            "kube-understudy.io/for": "list pods",
            "kube-understudy.io/made-by": "understudy explain",
            "kube-understudy.io/made-at": "2026-11-18",
        }
        assert given == without


def test_long_purpose_is_truncated() -> None:
    annotations = GrantPurpose(caller="x" * 5000).annotations()

    assert annotations == {"kube-understudy.io/caller": "x" * 1000 + "..."}
