"""Generated callers, wanted identities, requests and policies, near the borders that matter."""

from zlib import crc32

from hypothesis import strategies as st

from proxy.core.authorization.access_check import AccessCheck
from proxy.core.impersonation.checks import ImpersonationRules
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.impersonation.policy import LegacyAction, LegacyPolicy
from proxy.core.requestinfo.request_info import RequestInfo, parse_request_info
from proxy.core.userinfo import (
    NODE_NAME_KEY,
    Caller,
    UserInfo,
    make_extra,
)

NAMES = [
    "alice",
    "bob",
    "system:anonymous",
    "system:node:n1",
    "system:node:n2",
    "system:node:Bad_1",
    "system:serviceaccount:ns:sa",
    "system:serviceaccount:ns:agent",
    "system:serviceaccount:ns",
]
GROUPS: list[tuple[str, ...]] = [
    (),
    ("",),
    ("a",),
    ("b", "a", "b"),
    ("a", "b", "c", "d"),
    ("a", "b", "c", "d", "e"),
    ("a", "system:masters"),
    ("system:nodes",),
    ("system:unauthenticated",),
]
EXTRAS = [
    make_extra(values)
    for values in (
        {},
        {"": ["v"]},
        {"scopes": ["v"]},
        {"a.io/x": ["v"]},
        {"a.io/x": ["v", "w"], "b.io/y": ["v"]},
        {"a.io/x": ["v", "w"], "b.io/y": ["v", "w"]},
        {"a.io/x": [""]},
        {"a.io/Y": ["v"]},
        {NODE_NAME_KEY: ["n1"]},
        {NODE_NAME_KEY: ["n2"]},
        {NODE_NAME_KEY: ["n1", "n2"]},
        {NODE_NAME_KEY: ["n1"], "authentication.kubernetes.io/credential-id": ["JTI=1"]},
    )
]
TARGETS = [
    b"/",
    b"/version",
    b"/api/v1/pods",
    b"/api/v1/pods?watch",
    b"/api/v1/pods?labelSelector=a=b",
    b"/api/v1/pods?labelSelector=a%20b",
    b"/api/v1/namespaces/n/pods/p",
    b"/api/v1/namespaces/n/pods/p/exec",
    b"/apis/apps/v1/namespaces/n/deployments",
    b"/api/v1/nodes?fieldSelector=metadata.name=n1",
]

# A few choices each, so that many cases are near each other and a run stays short.
identities = st.builds(
    UserInfo,
    st.sampled_from(NAMES),
    st.sampled_from(["", "1"]),
    st.sampled_from(GROUPS),
    st.sampled_from(EXTRAS),
)
callers = st.builds(Caller, identities)
wanted_identities = st.sampled_from([UserInfo(name) for name in NAMES]) | identities
actions: st.SearchStrategy[RequestInfo] = st.builds(
    parse_request_info, st.sampled_from([b"GET", b"DELETE", b"OPTIONS"]), st.sampled_from(TARGETS)
)
modes = st.sampled_from([None, *ImpersonationMode])
rules = st.sampled_from(
    [
        ImpersonationRules(),
        ImpersonationRules(caches_legacy=True),
        ImpersonationRules(upgrade_needs_create=True),
        ImpersonationRules(constrained=False),
        ImpersonationRules(constrained=False, caches_legacy=True),
        ImpersonationRules(protected_groups=frozenset()),
        ImpersonationRules(protected_groups=frozenset({"a"})),
        ImpersonationRules(legacy=LegacyPolicy(LegacyAction.DENY)),
        ImpersonationRules(constrained=False, legacy=LegacyPolicy(LegacyAction.DENY)),
    ]
)


def allowed_by(check: AccessCheck, salt: int) -> bool:
    """Answer a check at random but always alike: three of four are allowed."""
    return crc32(f"{salt} {check!r}".encode()) % 4 != 0
