"""Subjects as somebody who calls."""

from proxy.core.rbac.model import (
    UNNAMED_USER,
    Subject,
    describe_subject,
    user_for_subject,
    user_in_groups,
)
from proxy.core.userinfo import UserInfo


def test_a_subject_is_somebody_with_the_groups_that_come_by_themselves() -> None:
    account = user_for_subject(Subject("ServiceAccount", "desk", "tools"))

    assert user_for_subject(Subject("User", "jane")) == UserInfo(
        "jane", groups=("system:authenticated",)
    )
    assert account == UserInfo(
        "system:serviceaccount:tools:desk",
        groups=("system:serviceaccounts", "system:serviceaccounts:tools", "system:authenticated"),
    )
    assert user_for_subject(Subject("Group", "dev")) == UserInfo(
        UNNAMED_USER, groups=("dev", "system:authenticated")
    )


def test_who_is_not_logged_in_stays_so() -> None:
    assert user_for_subject(Subject("User", "system:anonymous")).groups == (
        "system:unauthenticated",
    )
    assert user_in_groups(("system:unauthenticated",)).groups == ("system:unauthenticated",)
    assert user_in_groups(("system:authenticated",)).groups == ("system:authenticated",)


def test_subjects_are_spoken_of() -> None:
    assert describe_subject(Subject("User", "jane")) == "user jane"
    assert describe_subject(Subject("Group", "dev")) == "group dev"
    assert (
        describe_subject(Subject("ServiceAccount", "desk", "tools")) == "service account tools/desk"
    )
