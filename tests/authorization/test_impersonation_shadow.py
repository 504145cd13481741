"""Which requests the authorizer submits to the shadow evaluator."""

import pytest

from proxy.authorization.decision_cache import ImpersonatedRequest
from proxy.authorization.shadow import ShadowEvaluator
from proxy.core.errors import Forbidden
from proxy.core.impersonation.checks import ImpersonationRules
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.userinfo import UserInfo
from tests.authorization.test_impersonation import (
    ALICE,
    BOB,
    LIST_PODS,
    USER_GRANTS,
    House,
    Witness,
)

REQUEST = ImpersonatedRequest(BOB, ALICE, LIST_PODS, is_upgrade=False)


class Shadow(ShadowEvaluator):
    """Notes what is submitted."""

    def __init__(self) -> None:
        self.submitted: list[tuple[ImpersonatedRequest, bytes]] = []

    def submit(self, request: ImpersonatedRequest, audit_id: bytes) -> None:
        self.submitted.append((request, audit_id))


@pytest.mark.parametrize("rules", [None, ImpersonationRules(caches_legacy=True)])
async def test_every_request_that_legacy_has_allowed_is_submitted(
    rules: ImpersonationRules | None,
) -> None:
    shadow = Shadow()
    house = House("impersonate users", rules=rules, shadow=shadow)

    for _ in range(4):
        result = await house.gate.authorize(BOB, ALICE, LIST_PODS, observer=Witness())
        assert result.permit.mode is ImpersonationMode.LEGACY
        assert result.recheck is None

    assert shadow.submitted == [(REQUEST, b"a-1")] * 4


async def test_upgrade_that_legacy_has_allowed_is_submitted_as_one() -> None:
    shadow = Shadow()
    house = House("impersonate users", shadow=shadow)

    await house.gate.authorize(BOB, ALICE, LIST_PODS, is_upgrade=True)

    assert shadow.submitted == [(REQUEST._replace(is_upgrade=True), b"")]


@pytest.mark.parametrize("wanted_user", [None, ALICE])
async def test_request_that_needs_no_legacy_permission_is_not_submitted(
    wanted_user: UserInfo | None,
) -> None:
    shadow = Shadow()
    house = House(*USER_GRANTS, shadow=shadow)

    for _ in range(3):
        await house.gate.authorize(BOB, wanted_user, LIST_PODS)

    assert shadow.submitted == []


async def test_denied_request_is_not_submitted() -> None:
    shadow = Shadow()

    with pytest.raises(Forbidden):
        await House(shadow=shadow).gate.authorize(BOB, ALICE, LIST_PODS)

    assert shadow.submitted == []
