"""Whether a right of the forwarder is missing: asked in bounded numbers, and remembered."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from proxy.concurrency.task_set import TaskSet
from proxy.core.selfcheck.permissions import Permission
from proxy.core.userinfo import UserInfo, make_extra
from proxy.upstream.identity import missing_permissions
from proxy.upstream.identity.missing_permissions import MissingPermissionChecker
from tests.support.clock import FakeClock
from tests.support.event_loops import eventually

ALICE = UserInfo("alice", groups=("dev",))
USERS, GROUPS = Permission("impersonate", "users"), Permission("impersonate", "groups")


class Asked:
    """The API server, which knows what the forwarder may do."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.failures: list[BaseException] = []
        self.tasks = TaskSet(self.failures.append)
        self.missing: set[Permission] = set()
        self.asked: list[Permission] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.fault: Exception | None = None
        self.rights = MissingPermissionChecker(self.may, clock=self.clock, tasks=self.tasks)

    async def may(self, right: Permission) -> bool:
        self.asked.append(right)
        await self.gate.wait()
        if self.fault is not None:
            raise self.fault
        return right not in self.missing

    async def is_missing(self, user: UserInfo = ALICE, name: str = "") -> bool:
        told: list[bool] = []
        self.rights.confirm(user, name, told.append)
        await eventually(lambda: told)
        return told[0]


@pytest.fixture
async def api() -> AsyncIterator[Asked]:
    asked = Asked()
    yield asked
    await asked.tasks.stop()


async def test_with_every_right_nothing_is_missing(api: Asked) -> None:
    assert not await api.is_missing()
    assert api.asked == [USERS, GROUPS]


@pytest.mark.parametrize(
    ("user", "general", "named"),
    [
        (ALICE, USERS, Permission("impersonate", "users", name="alice")),
        (ALICE, GROUPS, Permission("impersonate", "groups", name="dev")),
        (
            UserInfo("system:serviceaccount:a:b"),
            Permission("impersonate", "serviceaccounts"),
            Permission("impersonate", "serviceaccounts", namespace="a", name="b"),
        ),
        (
            UserInfo("bob", uid="7"),
            Permission("impersonate", "uids", "authentication.k8s.io"),
            Permission("impersonate", "uids", "authentication.k8s.io", name="7"),
        ),
        (
            UserInfo("bob", extra=make_extra({"Team": ["blue"]})),
            Permission("impersonate", "userextras", "authentication.k8s.io", "Team"),
            Permission("impersonate", "userextras", "authentication.k8s.io", "Team", name="blue"),
        ),
    ],
)
async def test_a_right_is_missing_if_neither_all_nor_this_name_may_be_taken(
    api: Asked, user: UserInfo, general: Permission, named: Permission
) -> None:
    api.missing = {general}
    assert not await api.is_missing(user)
    api.clock.advance(1.0)

    api.missing = {general, named}

    assert await api.is_missing(user)


async def test_the_name_that_was_denied_is_asked_about_first(api: Asked) -> None:
    many = UserInfo("alice", groups=tuple(f"group-{number}" for number in range(100)))
    last = Permission("impersonate", "groups", name="group-99")
    api.missing = {GROUPS, last}

    assert await api.is_missing(many, "group-99")
    assert api.asked == [USERS, GROUPS, last]


async def test_only_so_many_names_are_asked_about(api: Asked) -> None:
    many = UserInfo("alice", groups=tuple(f"group-{number}" for number in range(100)))
    api.missing = {GROUPS, Permission("impersonate", "groups", name="group-99")}

    assert not await api.is_missing(many)
    assert len(api.asked) == 2 + 32


async def test_an_answer_is_believed_for_a_second(api: Asked) -> None:
    for _ in range(100):
        assert not await api.is_missing()
    assert len(api.asked) == 2

    api.clock.advance(1.0)

    assert not await api.is_missing()
    assert len(api.asked) == 4


async def test_equal_questions_under_way_are_asked_once(api: Asked) -> None:
    api.gate.clear()
    asking = [asyncio.ensure_future(api.is_missing()) for _ in range(50)]
    await eventually(lambda: api.asked)
    await asyncio.sleep(0)
    assert api.asked == [USERS]

    api.gate.set()

    assert not any(await asyncio.gather(*asking))
    assert api.asked == [USERS, GROUPS]


async def test_a_flood_of_identities_is_rationed_and_in_doubt_nothing_is_missing(
    api: Asked,
) -> None:
    api.missing = {USERS, *(Permission("impersonate", "users", name=f"u-{n}") for n in range(1000))}
    found = [await api.is_missing(UserInfo(f"u-{number}")) for number in range(1000)]

    assert found[0]
    assert not found[-1]
    assert len(api.asked) <= 100


@pytest.mark.parametrize("fault", [OSError("down"), KeyError("status"), ZeroDivisionError()])
async def test_without_an_answer_nothing_is_missing(api: Asked, fault: Exception) -> None:
    api.missing = {USERS, Permission("impersonate", "users", name="alice")}
    api.fault = fault

    assert not await api.is_missing()


async def test_a_late_answer_is_none(api: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing_permissions, "_SECONDS", 0.01)
    api.gate.clear()

    assert not await api.is_missing()


async def test_the_end_of_the_proxy_confirms_nothing(api: Asked) -> None:
    api.gate.clear()
    told: list[bool] = []
    api.rights.confirm(ALICE, "", told.append)
    await eventually(lambda: api.asked)

    await api.tasks.stop()

    assert told == [False]
