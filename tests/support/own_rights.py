"""The rights of a proxy that a test gives an identity of the test's own choice."""

from tests.support.impersonation import AUTHENTICATION, may, may_impersonate

OWN_RIGHTS = (
    *(may_impersonate(resource) for resource in ("users", "groups", "serviceaccounts")),
    may("impersonate", "create", resources=["*"], group=AUTHENTICATION),
    may("create", resources=["subjectaccessreviews"], group="authorization.k8s.io"),
)
