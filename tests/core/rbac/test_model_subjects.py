"""Subjects as somebody who calls."""

from proxy.core.rbac.model import (
    NOBODY,
    Subject,
    member_of,
    somebody,
    spoken,
)
from proxy.core.userinfo import Identity


def test_a_subject_is_somebody_with_the_groups_that_come_by_themselves() -> None:
    account = somebody(Subject("ServiceAccount", "desk", "tools"))

    assert somebody(Subject("User", "jane")) == Identity("jane", groups=("system:authenticated",))
    assert account == Identity(
        "system:serviceaccount:tools:desk",
        groups=("system:serviceaccounts", "system:serviceaccounts:tools", "system:authenticated"),
    )
    assert somebody(Subject("Group", "dev")) == Identity(
        NOBODY, groups=("dev", "system:authenticated")
    )


def test_who_is_not_logged_in_stays_so() -> None:
    assert somebody(Subject("User", "system:anonymous")).groups == ("system:unauthenticated",)
    assert member_of(("system:unauthenticated",)).groups == ("system:unauthenticated",)
    assert member_of(("system:authenticated",)).groups == ("system:authenticated",)


def test_subjects_are_spoken_of() -> None:
    assert spoken(Subject("User", "jane")) == "user jane"
    assert spoken(Subject("Group", "dev")) == "group dev"
    assert spoken(Subject("ServiceAccount", "desk", "tools")) == "service account tools/desk"
