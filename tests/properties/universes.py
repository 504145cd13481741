"""Small clusters: few people, few groups, and RBAC between them that often nearly suffices."""

from collections.abc import Iterator
from itertools import combinations

from hypothesis import strategies as st

from proxy.core.authorization.access_check import CheckResult
from proxy.core.impersonation.checks import Attempt, plan_attempts
from proxy.core.impersonation.evaluation import Allowed, Ask, evaluate
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.rbac.model import (
    UNNAMED_USER,
    Binding,
    RBACSnapshot,
    Rule,
    Subject,
    implied_groups,
)
from proxy.core.rbac.who_can import KUBE_APISERVER_RULES
from proxy.core.requestinfo.request_info import RequestInfo, parse_request_info
from proxy.core.userinfo import (
    NODE_NAME_KEY,
    Caller,
    UserInfo,
    make_extra,
)

NAMES = (
    "alice",
    "bob",
    UNNAMED_USER,
    "system:anonymous",
    "system:serviceaccount:ns:one",
    "system:serviceaccount:ns:two",
    "system:serviceaccount:other:one",
)
GROUPS = ("dev", "ops", "system:masters")
SUBJECTS = (
    Subject("User", "alice"),
    Subject("User", "bob"),
    Subject("User", "system:anonymous"),
    Subject("User", "system:serviceaccount:ns:two"),
    Subject("Group", "dev"),
    Subject("Group", "ops"),
    Subject("Group", "system:authenticated"),
    Subject("Group", "system:unauthenticated"),
    Subject("Group", "system:serviceaccounts"),
    Subject("Group", "system:serviceaccounts:ns"),
    Subject("Group", "system:serviceaccounts:other"),
    Subject("ServiceAccount", "one", "ns"),
    Subject("ServiceAccount", "one", "other"),
    Subject("ServiceAccount", "one"),
)
WANTED = (
    UserInfo("carol"),
    UserInfo("carol", "7", ("a",)),
    UserInfo("carol", groups=("a", "b", "c", "d")),
    UserInfo("carol", groups=("a", "system:masters")),
    UserInfo("carol", extra=make_extra({"a.io/b": ["1", "2", "3", "4"]})),
    UserInfo("system:node:n1"),
    UserInfo("system:serviceaccount:ns:target"),
    UserInfo("system:serviceaccount:ns:target", groups=("a",)),
)
ACTIONS = (
    parse_request_info(b"GET", b"/api/v1/namespaces/ns/pods"),
    parse_request_info(b"GET", b"/api/v1/pods"),
    parse_request_info(b"GET", b"/version"),
)
MODES = tuple(ImpersonationMode)


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    """Draw a rule that is about something that is asked, or nearly so."""
    mode = draw(st.sampled_from(MODES))
    kind = draw(st.sampled_from(["identity", "identity", "action", "action", "path", "star"]))
    if kind == "star":
        return Rule(("*",), ("*",), ("*",), paths=("*",))
    if kind == "path":
        return Rule((mode.action_verb("get"),), paths=(draw(st.sampled_from(["/version", "/a*"])),))
    if kind == "action":
        verb = draw(st.sampled_from(["list", "get"]))
        return Rule((mode.action_verb(verb),), ("",), (draw(st.sampled_from(["pods", "*"])),))
    group = "" if mode is ImpersonationMode.LEGACY else "authentication.k8s.io"
    resources = draw(
        st.sets(
            st.sampled_from(["users", "groups", "uids", "nodes", "serviceaccounts", "*"]),
            min_size=1,
            max_size=3,
        )
    )
    extras = draw(st.sampled_from([(), ("userextras/a.io/b",), ("userextras/*",)]))
    some = st.sampled_from([(), (), ("carol",), ("a", "b", "c", "d"), ("n1",), ("target",), ("*",)])
    return Rule(
        (mode.identity_verb,), (group, "authentication.k8s.io"), (*resources, *extras), draw(some)
    )


@st.composite
def clusters(draw: st.DrawFn) -> RBACSnapshot:
    """Draw a few bindings."""
    bindings = draw(
        st.lists(
            st.builds(
                Binding,
                st.just("b"),
                st.sampled_from(["", "", "ns"]),
                st.just("ClusterRole/r"),
                st.lists(st.sampled_from(SUBJECTS), min_size=1, max_size=2).map(tuple),
                st.lists(rules(), min_size=1, max_size=3).map(tuple),
            ),
            min_size=1,
            max_size=6,
        )
    )
    return RBACSnapshot(tuple(bindings))


def everybody(mode: ImpersonationMode) -> Iterator[UserInfo]:
    """Give everyone who could come: each name in each set of groups that it could be in.

    Whoever has a node comes with a token of the cluster's own, which brings no other groups.
    """
    for name in NAMES:
        own = implied_groups(name)
        for count in range(len(GROUPS) + 1):
            for more in combinations(GROUPS, count):
                is_alone = name == "system:anonymous" or mode is ImpersonationMode.ASSOCIATED_NODE
                if not (is_alone and more):
                    yield UserInfo(name, groups=(*more, *own))


def attempt_of(
    user: UserInfo, mode: ImpersonationMode, wanted_user: UserInfo, request_info: RequestInfo
) -> Attempt | None:
    """Return the attempt of one mode, for somebody in a pod on the node that is asked for."""
    extra = make_extra({NODE_NAME_KEY: ["n1"]})
    caller = Caller(UserInfo(user.name, groups=user.groups, extra=extra))
    attempts = plan_attempts(caller, wanted_user, request_info, rules=KUBE_APISERVER_RULES)
    return next((one for one in attempts if one.mode is mode), None)


def is_allowed(rbac: RBACSnapshot, attempt: Attempt) -> bool:
    """Return what the decision is where RBAC and the privileged group are all there is."""
    evaluation = evaluate([attempt])
    try:
        question = next(evaluation)
        while True:
            answer = False
            if isinstance(question, Ask):
                check = question.check
                answer = "system:masters" in check.user.groups or rbac.allows(check)
            question = evaluation.send(CheckResult(answer))
    except StopIteration as stop:
        return isinstance(stop.value, Allowed)
