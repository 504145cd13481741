"""The table of chains, each shown to kube-apiserver and to the proxy before it.

A chain that kube-apiserver does not believe is a 401, or a handshake that fails where Go cannot
even parse it. Here it is a 401 in both cases, and a handshake that fails only beyond a limit, or
for a key that OpenSSL must not decode.
"""

from collections.abc import Iterator

import pytest

from tests.support.auth_methods import Stage
from tests.support.chain_oracle import ChainOracle, running_chain_oracle
from tests.support.chain_table import CASES, Case

NO_HANDSHAKE, CREATED, UNAUTHORIZED = 0, 201, 401
REFUSED = {NO_HANDSHAKE, UNAUTHORIZED}

pytestmark = pytest.mark.timeout(90)


@pytest.fixture(scope="module")
def oracle() -> Iterator[ChainOracle]:
    with running_chain_oracle() as oracle:
        yield oracle


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_chain_means_the_same_to_both_servers_or_less_to_the_proxy(
    stage: Stage, oracle: ChainOracle, case: Case
) -> None:
    chain = case.make()

    native, ours = (
        oracle.show(door.url, chain.certificates, chain.key) for door in (stage.native, stage.ours)
    )

    if not case.is_accepted:
        assert native.status in REFUSED, native
        assert ours.status in REFUSED, ours
        return
    assert native.status == CREATED, native
    if case.ends_handshake:
        assert ours.status == NO_HANDSHAKE, ours
    elif case.stricter:
        assert ours.status in REFUSED, ours
    else:
        assert (ours.status, ours.user) == (native.status, native.user), ours


@pytest.mark.parametrize("title", [title for title, case in CASES.items() if not case.is_accepted])
def test_a_token_beside_a_chain_that_proves_nothing_is_believed(
    stage: Stage, oracle: ChainOracle, title: str
) -> None:
    """As natively, but also where kube-apiserver ends the handshake: the chain plays no part."""
    chain = CASES[title].make()
    token = stage.tokens["of a user"].value

    native, ours = (
        oracle.show(door.url, chain.certificates, chain.key, token=token)
        for door in (stage.native, stage.ours)
    )

    assert native.status in {NO_HANDSHAKE, CREATED}
    if ours.status != NO_HANDSHAKE:
        assert ours.status == CREATED
        assert ours.user is not None
        assert ours.user["username"] == "alice"
        assert native.user is None or native.user == ours.user
    elif not CASES[title].ends_handshake:
        assert native.status == NO_HANDSHAKE
