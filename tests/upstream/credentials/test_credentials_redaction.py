"""What is wrong with our own credential is told without the credential."""

from pathlib import Path

import pytest

from proxy.settings.types import parse_server
from proxy.upstream.credentials.credentials import CredentialsError
from tests.upstream.kubeconfigs import kubeconfig, load

SECRET = "canary-canary"
PLUGIN = {"apiVersion": "client.authentication.k8s.io/v1", "command": "true"}


@pytest.mark.parametrize(
    ("cluster", "user"),
    [
        pytest.param({"server": f"https://u:{SECRET}@127.0.0.1"}, None, id="a password in a URL"),
        pytest.param({"server": f"https://127.0.0.1?token={SECRET}"}, None, id="a token in a URL"),
        pytest.param({}, {"token": f"{SECRET}\x01"}, id="a token with odd characters"),
        pytest.param({}, {"client-key-data": SECRET}, id="a key that is not base64"),
        pytest.param({}, {"exec": {**PLUGIN, "args": SECRET}}, id="arguments that are no list"),
    ],
)
async def test_nothing_secret_of_a_kubeconfig_is_told(
    tmp_path: Path, cluster: dict[str, object], user: dict[str, object] | None
) -> None:
    with pytest.raises(CredentialsError) as refused:
        await load(kubeconfig(tmp_path, cluster, user))

    assert SECRET not in str(refused.value)


async def test_nothing_of_a_kubeconfig_that_is_not_yaml_is_told(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(f"users:\n- token: {SECRET}\n  }}\n")

    with pytest.raises(CredentialsError) as refused:
        await load(file)

    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("value", ["http://host", "host", "https://host/path", "https://"])
def test_a_wrong_server_is_shown_where_nothing_secret_can_be_in_it(value: str) -> None:
    with pytest.raises(ValueError, match=f"not {value}$"):
        parse_server(value)
