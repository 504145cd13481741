"""Who we are at the API server, as it is written."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from proxy.settings.upstream import UpstreamSettings


def read(**keys: object) -> UpstreamSettings:
    return UpstreamSettings.model_validate(keys)


def test_two_identities_can_be_said_in_two_ways() -> None:
    by_files = read(kubeconfig="/a", reviewer={"kubeconfig": "/b"})
    by_account = read(forwarder={"serviceAccount": "understudy:for.ward-er"})

    assert (by_files.kubeconfig, by_files.reviewer.kubeconfig) == (Path("/a"), Path("/b"))
    assert by_account.forwarder.service_account == ("understudy", "for.ward-er")
    assert by_account.reviewer.kubeconfig is None


@pytest.mark.parametrize(
    "account", ["", "a", ":", "a:", ":b", "a/b:c", "a:b/c", "A:b", "a:b:c", "a:../b", "a:b\n", 7]
)
def test_an_account_is_a_namespace_and_a_name(account: object) -> None:
    """It becomes part of a path."""
    with pytest.raises(ValidationError, match="must be NAMESPACE:NAME of a service account"):
        read(forwarder={"serviceAccount": account})


@pytest.mark.parametrize(
    "apart", [{"reviewer": {"kubeconfig": "/b"}}, {"forwarder": {"serviceAccount": "a:b"}}], ids=str
)
def test_one_identity_cannot_be_two(apart: dict[str, dict[str, object]]) -> None:
    forwarder = {**apart.get("forwarder", {}), "sameAsReviewer": True}

    with pytest.raises(ValidationError, match="contradicts"):
        read(**{**apart, "forwarder": forwarder})
