import stat
from pathlib import Path

import pytest
import yaml
from blockbuster import BlockingError

from proxy.sandbox.identities import (
    BearerToken,
    CertificateAuthority,
    KeyPair,
    TokenUser,
    write_kubeconfig,
    write_signing_key,
    write_token_file,
)

AUTHORITY = CertificateAuthority("test")


def test_keys_are_written_for_our_eyes_only(tmp_path: Path) -> None:
    _, key = AUTHORITY.issue_client("alice").write(tmp_path, "alice")
    write_token_file(tmp_path / "tokens.csv", [TokenUser("tina")])

    for path in (key, tmp_path / "tokens.csv"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_secrets_do_not_show_in_a_representation() -> None:
    token = BearerToken("hunter2")

    assert "hunter2" not in repr(token)
    assert "PRIVATE" not in repr(AUTHORITY.issue_client("alice"))


def test_a_token_file_has_a_row_for_each_user(tmp_path: Path) -> None:
    users = [
        TokenUser("tina", uid="7", groups=("a", "b"), token=BearerToken("one")),
        TokenUser("tom", token=BearerToken("two")),
    ]

    write_token_file(tmp_path / "tokens.csv", users)

    rows = (tmp_path / "tokens.csv").read_text().splitlines()
    assert rows == ['one,tina,7,"a,b"', "two,tom,,"]


def test_two_users_never_get_the_same_token() -> None:
    assert TokenUser("tina").token != TokenUser("tina").token


@pytest.mark.parametrize(
    ("credential", "keys"),
    [
        (AUTHORITY.issue_client("alice"), ["client-certificate-data", "client-key-data"]),
        (BearerToken("secret"), ["token"]),
        (None, []),
    ],
    ids=["certificate", "token", "nobody"],
)
def test_a_kubeconfig_carries_the_credential_itself(
    tmp_path: Path, credential: KeyPair | BearerToken | None, keys: list[str]
) -> None:
    path = write_kubeconfig(
        tmp_path / "config", url="https://127.0.0.1:1", ca_pem=b"ca", credential=credential
    )

    document = yaml.safe_load(path.read_text())
    assert document["clusters"][0]["cluster"] == {
        "server": "https://127.0.0.1:1",
        "certificate-authority-data": "Y2E=",
    }
    assert list(document["users"][0]["user"]) == keys
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_code_of_ours_that_blocks_the_event_loop_fails_its_test(tmp_path: Path) -> None:
    """The guard of every asynchronous test, shown where we do block."""
    with pytest.raises(BlockingError, match=r"os\.unlink"):
        write_signing_key(tmp_path / "key")
