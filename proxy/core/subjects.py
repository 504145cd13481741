"""Subjects of RBAC as somebody who calls, and in words."""

from proxy.core.identity import (
    ANONYMOUS,
    AUTHENTICATED,
    UNAUTHENTICATED,
    Identity,
    service_account,
    service_account_groups,
)
from proxy.core.rbac import GROUP, SERVICE_ACCOUNT, USER, Subject

NOBODY = "understudy:nobody"
"""A user whom no rule names: somebody of whom only the groups are known."""


def somebody(subject: Subject) -> Identity:
    """Return the identity of whoever is this subject and nothing else."""
    if subject.kind == GROUP:
        return member_of((subject.name,))
    name = subject.name
    if subject.kind == SERVICE_ACCOUNT:
        name = f"system:serviceaccount:{subject.namespace}:{subject.name}"
    return Identity(name, groups=implied_groups(name))


def member_of(groups: tuple[str, ...]) -> Identity:
    """Return somebody who is in these groups, and logged in unless they say otherwise."""
    logged_in = () if UNAUTHENTICATED in groups or AUTHENTICATED in groups else (AUTHENTICATED,)
    return Identity(NOBODY, groups=(*groups, *logged_in))


def implied_groups(username: str) -> tuple[str, ...]:
    """Return the groups that come with a name alone, by whatever credential it is proved."""
    if username == ANONYMOUS:
        return (UNAUTHENTICATED,)
    account = service_account(username)
    own = () if account is None else service_account_groups(account.namespace)
    return (*own, AUTHENTICATED)


def spoken(subject: Subject) -> str:
    """Return a subject in words."""
    if subject.kind == SERVICE_ACCOUNT:
        return f"service account {subject.namespace}/{subject.name}"
    return f"{'user' if subject.kind == USER else 'group'} {subject.name}"
