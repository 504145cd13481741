"""Who we are at the API server, and one clear line when that cannot be read."""

import ssl
from pathlib import Path

import pytest

from proxy.upstream.credentials.credentials import CredentialsError
from tests.support.certificates import Certificates, new_certificates
from tests.upstream.kubeconfigs import kubeconfig, load


@pytest.fixture(scope="module")
def certificates() -> Certificates:
    return new_certificates()


async def complaint(file: Path | None) -> str:
    with pytest.raises(CredentialsError) as refused:
        await load(file)
    assert "\n" not in str(refused.value)
    return str(refused.value)


async def test_a_kubeconfig_names_the_server_and_our_token(
    tmp_path: Path, certificates: Certificates
) -> None:
    ca_file = certificates.write_server_ca(tmp_path)
    cluster: dict[str, object] = {"certificate-authority": str(ca_file), "tls-server-name": "api"}

    loaded = await load(kubeconfig(tmp_path, cluster))

    endpoint = loaded.endpoints[0]
    assert (endpoint.host, endpoint.port, endpoint.server_name) == ("127.0.0.1", 6443, "api")
    assert loaded.authorization == b"Bearer abc"
    assert endpoint.context.verify_mode is ssl.CERT_REQUIRED
    assert endpoint.context.check_hostname
    assert endpoint.context.minimum_version is ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize(
    ("server", "host", "port", "name"),
    [
        ("https://api.example", "api.example", 443, "api.example"),
        ("https://[::1]:6443/", "::1", 6443, "::1"),
    ],
)
async def test_an_address_may_leave_things_out(
    tmp_path: Path, server: str, host: str, port: int, name: str
) -> None:
    endpoint = (await load(kubeconfig(tmp_path, {"server": server}))).endpoints[0]

    assert (endpoint.host, endpoint.port, endpoint.server_name) == (host, port, name)


async def test_the_newline_of_a_token_file_stays_out_of_the_header(tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    token_file.write_text("from-a-file\n")

    loaded = await load(kubeconfig(tmp_path, user={"tokenFile": str(token_file)}))

    assert loaded.authorization == b"Bearer from-a-file"
    assert loaded.configuration.api_key == {"BearerToken": "Bearer from-a-file"}


async def test_a_certificate_speaks_for_us_without_a_token(
    tmp_path: Path, certificates: Certificates
) -> None:
    certificate, key = certificates.write_server_files(tmp_path)
    user: dict[str, object] = {"client-certificate": str(certificate), "client-key": str(key)}

    loaded = await load(kubeconfig(tmp_path, user=user))

    assert loaded.authorization is None


@pytest.mark.parametrize(
    ("cluster", "user", "reason"),
    [
        ({"server": "http://127.0.0.1"}, None, "must be https://"),
        ({"server": "https://127.0.0.1/prefix"}, None, "must be https://"),
        ({"server": "https://127.0.0.1:99999"}, None, "Port out of range"),
        ({"insecure-skip-tls-verify": True}, None, "insecure-skip-tls-verify is not supported"),
        ({"proxy-url": "http://127.0.0.1:1"}, None, "proxy-url is not supported"),
        ({"certificate-authority": "/nowhere/ca.crt"}, None, "/nowhere/ca.crt"),
        ({"certificate-authority-data": "YWJj"}, None, "no certificate"),
        (None, {}, "neither a token nor a client certificate"),
        (None, {"token": "a\nb"}, "not printable ASCII"),
        (None, {"token": "caf\u00e9"}, "not printable ASCII"),
        (None, {"tokenFile": "/nowhere/token"}, "/nowhere/token"),
        (None, {"client-certificate": "/nowhere/c", "client-key": "/nowhere/k"}, "/nowhere/"),
    ],
)
async def test_what_we_cannot_use_is_told(
    tmp_path: Path,
    cluster: dict[str, object] | None,
    user: dict[str, object] | None,
    reason: str,
) -> None:
    assert reason in await complaint(kubeconfig(tmp_path, cluster, user))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not a mapping"),
        ("[1]", "not a mapping"),
        ("text", "not a mapping"),
        ("{a: [", "not YAML"),
        ("{}", "current-context"),
        ("{current-context: c, contexts: 5, clusters: [], users: []}", "kube"),
        ("{current-context: c, contexts: [{name: c, context: 5}]}", "kube"),
    ],
)
async def test_a_file_that_is_no_kubeconfig_is_told(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(text)

    assert reason in await complaint(file)


async def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert "No such file" in await complaint(tmp_path / "absent")


async def test_outside_a_pod_there_is_no_service_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    assert (await complaint(None)).startswith("cannot use the pod's service account")


class Pod:
    """A pod's service account."""

    def __init__(self, token_file: Path) -> None:
        self._token_file = token_file

    def is_given(self, token: str | None) -> None:
        """Replace the token, or take it away."""
        if token is None:
            self._token_file.unlink()
        else:
            self._token_file.write_text(token)


@pytest.fixture
def pod(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, certificates: Certificates) -> Pod:
    """A pod with a service account."""
    pod = Pod(tmp_path / "token")
    pod.is_given("first\n")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    library = "kubernetes_asyncio.config.incluster_config."
    monkeypatch.setattr(library + "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    ca_file = certificates.write_server_ca(tmp_path)
    monkeypatch.setattr(library + "SERVICE_CERT_FILENAME", str(ca_file))
    return pod


async def test_a_pods_token_is_read_again(pod: Pod) -> None:
    loaded = await load(None)
    assert (loaded.endpoints[0].host, loaded.authorization) == ("::1", b"Bearer first")

    pod.is_given("second\n")
    await loaded.refresh()

    assert loaded.authorization == b"Bearer second"
    assert await loaded.configuration.get_api_key_with_prefix("BearerToken") == "Bearer second"


async def test_a_pods_ca_is_read_again(pod: Pod, tmp_path: Path) -> None:
    loaded = await load(None)
    old = loaded.endpoints

    new_certificates().write_server_ca(tmp_path)

    assert await loaded.refresh()
    assert loaded.endpoints != old
    assert loaded.authorization == b"Bearer first"


@pytest.mark.parametrize("token", ["", None, "a\x00b"], ids=["empty", "gone", "odd"])
async def test_while_the_token_cannot_be_used_the_old_one_stays(
    pod: Pod, token: str | None
) -> None:
    loaded = await load(None)
    pod.is_given(token)

    with pytest.raises(CredentialsError):
        await loaded.refresh()

    assert loaded.authorization == b"Bearer first"
    assert await loaded.configuration.get_api_key_with_prefix("BearerToken") == "Bearer first"
