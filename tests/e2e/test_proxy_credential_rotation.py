"""Our tokens, and the certificate and CA of the real API server, are replaced under load.

Files are swapped as the kubelet does it: a new directory, and one symbolic link that turns to it.
"""

import itertools
import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import ApiServer, ApiServerOptions
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.identities import BearerToken, CertificateAuthority
from proxy.sandbox.objects import (
    create_namespace,
    create_service_account,
    grant,
    token_for,
)
from proxy.sandbox.processes import LOOPBACK, ReservedPort
from proxy.sandbox.proxy_process import ProxyProcess
from proxy.sandbox.proxy_rbac import FORWARDER_RULES, REVIEWER_RULES
from tests.e2e.kep.cast import Cast
from tests.support.control_plane import fresh_name
from tests.support.impersonation import Caller, Rights, may_impersonate, poll

pytestmark = pytest.mark.timeout(180)

USERS = 4
ACCOUNTS = {"reviewer": REVIEWER_RULES, "forwarder": FORWARDER_RULES}


class Volume:
    """A directory as the kubelet projects it: files are links through one link that is swapped."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()
        self._numbers = itertools.count()
        self._files: dict[str, bytes] = {}

    def write(self, **files: bytes) -> None:
        """Change some files, all at the same moment."""
        self._files |= files
        version = self.directory / f"..version-{next(self._numbers)}"
        version.mkdir()
        for name, content in self._files.items():
            (version / name).write_bytes(content)
            link = self.directory / name
            if not link.is_symlink():
                link.symlink_to(Path("..data", name))
        new = self.directory / "..new"
        new.symlink_to(version.name)
        new.rename(self.directory / "..data")


class Identity:
    """A service account of ours, whose token and CA are in a volume."""

    def __init__(self, admin: ApiClient, server: ApiServer, role: str, directory: Path) -> None:
        self._admin = admin
        self._role = role
        self._namespace = fresh_name("rotation")
        create_namespace(admin, self._namespace)
        create_service_account(admin, self._namespace, role)
        subject = {"kind": "ServiceAccount", "namespace": self._namespace, "name": role}
        grant(admin, self._namespace, rules=ACCOUNTS[role], to=subject)
        self.volume = Volume(directory)
        self._url = server.url
        self.volume.write(
            token=self.new_token().value.encode(),
            ca=server.ca_pem,
            kubeconfig=self.document({"tokenFile": str(directory / "token")}),
        )
        self.kubeconfig = directory / "kubeconfig"

    def document(self, user: dict[str, str]) -> bytes:
        """Return a kubeconfig of this user, whose CA is in the volume."""
        ca_file = str(self.volume.directory / "ca")
        cluster = {"server": self._url, "certificate-authority": ca_file}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user}],
        }
        return json.dumps(document).encode()

    def new_token(self) -> BearerToken:
        return token_for(self._admin, self._namespace, self._role)


class Load:
    """Clients that never stop asking, as themselves and as ever new others."""

    def __init__(self, understudy: ProxyProcess, caller: Caller) -> None:
        self._client = understudy.client(caller.credential)
        self._stop = threading.Event()
        self._answers = [0] * USERS
        self.statuses: set[int | str] = set()
        self._threads = [threading.Thread(target=self._work, args=(one,)) for one in range(USERS)]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _work(self, number: int) -> None:
        while not self._stop.is_set():
            try:
                with self._client.connect() as connection:
                    for turn in range(20):
                        user = f"user-{number}-{self._answers[number]}"
                        wanted = [("Impersonate-User", user)] if turn % 2 else []
                        response = connection.request("GET", "/version", headers=wanted)
                        self.statuses.add(response.status)
                        self._answers[number] += 1
            except OSError as error:
                self.statuses.add(repr(error))

    @property
    def count(self) -> int:
        """How many answers came."""
        return sum(self._answers)

    def goes_on(self) -> None:
        """Wait until everybody has had some more answers."""
        before = list(self._answers)
        poll(
            lambda: all(now >= then + 25 for now, then in zip(self._answers, before, strict=True)),
            "the load has stopped",
        )


@pytest.fixture
def server(control_plane: ControlPlane, tmp_path: Path) -> Iterator[ApiServer]:
    """An API server whose certificate may be replaced: nobody else trusts it."""
    certificate, key = control_plane.servers.issue_server(LOOPBACK).write(tmp_path, "server")
    flags = (f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}")
    options = ApiServerOptions(name=fresh_name("rotating"), extra_flags=flags)
    with closing(control_plane.start_api_server(options)) as running:
        yield running


class Stage:
    """A running proxy, its two identities, and clients that never stop asking."""

    def __init__(self, identities: list[Identity], admin_url: str, load: Load) -> None:
        self._identities = identities
        self._metrics_url = f"{admin_url}/metrics"
        self.load = load

    def changes(self, outcome: str) -> float:
        """Return how many changes have come to this end for both identities."""
        name = "understudy_proxy_credential_reloads_total"
        with urlopen(self._metrics_url, timeout=10) as page:
            samples = dict(line.rsplit(" ", 1) for line in page.read().decode().splitlines())
        return min(
            float(samples.get(f'{name}{{identity="{role}",outcome="{outcome}"}}', 0))
            for role in ACCOUNTS
        )

    def turn_to(self, *, ca: bytes | None = None, outcome: str = "used") -> None:
        """Give both identities a new token, or another CA, and wait until it is noticed."""
        with self._noticed(outcome):
            for identity in self._identities:
                if ca is not None:
                    identity.volume.write(ca=ca)
                else:
                    identity.volume.write(token=identity.new_token().value.encode())

    def turn_to_kubeconfigs(self) -> None:
        """Give both identities another kubeconfig, with a token in it."""
        with self._noticed("used"):
            for identity in self._identities:
                user = {"token": identity.new_token().value}
                identity.volume.write(kubeconfig=identity.document(user))

    @contextmanager
    def _noticed(self, outcome: str) -> Iterator[None]:
        before = self.changes(outcome)
        yield
        poll(lambda: self.changes(outcome) > before, f"no change was {outcome}")
        self.load.goes_on()

    def tokens(self) -> list[str]:
        """Return the tokens in use."""
        return [one.volume.directory.joinpath("token").read_text() for one in self._identities]


@pytest.fixture
def admin_url() -> Iterator[str]:
    with ReservedPort() as port:
        yield f"http://{LOOPBACK}:{port.number}"


@pytest.fixture
def identities(server: ApiServer, admin: ApiClient, tmp_path: Path) -> list[Identity]:
    # By another server of the same cluster, whose certificate stays the same.
    return [Identity(admin, server, role, tmp_path / role) for role in ACCOUNTS]


@pytest.fixture
def understudy(
    control_plane: ControlPlane, server: ApiServer, identities: list[Identity], admin_url: str
) -> Iterator[ProxyProcess]:
    reviewer, forwarder = identities
    settings: dict[str, dict[str, object]] = {
        "admin": {"address": admin_url.removeprefix("http://")},
        "upstream": {
            "kubeconfig": str(forwarder.kubeconfig),
            "reviewer": {"kubeconfig": str(reviewer.kubeconfig)},
            "credentialRefresh": "200ms",
        },
        "impersonation": {"reviews": {"perCallerPerSecond": 10**6, "perCallerBurst": 10**6}},
    }
    with ProxyProcess(control_plane, server, settings=settings) as running:
        yield running


@pytest.fixture
def stage(
    control_plane: ControlPlane,
    server: ApiServer,
    understudy: ProxyProcess,
    identities: list[Identity],
    admin_url: str,
) -> Iterator[Stage]:
    caller = Cast(control_plane, server.admin).user()
    Rights(server).grant(caller, may_impersonate("users"))
    client, wanted = understudy.client(caller.credential), [("Impersonate-User", "bob")]
    poll(
        lambda: client.request("GET", "/version", headers=wanted).status == 200,
        "the caller's rights are not in force",
    )
    with Load(understudy, caller) as load:
        load.goes_on()
        yield Stage(identities, admin_url, load)


def test_tokens_certificates_and_cas_are_replaced_without_a_failed_request(
    stage: Stage, server: ApiServer, understudy: ProxyProcess, tmp_path: Path
) -> None:
    renewed = CertificateAuthority("renewed-servers")

    stage.turn_to()
    # What cannot be used leaves the old one in force, and is told.
    stage.turn_to(ca=b"-----BEGIN CERTIFICATE-----\nhalf", outcome="refused")
    # Both CAs, then a server certificate of the new one, then the old CA no more.
    stage.turn_to(ca=server.ca_pem + renewed.certificate_pem)
    renewed.issue_server(LOOPBACK).write(tmp_path, "server")
    poll(lambda: serves(server, renewed), "the API server has not turned")
    stage.load.goes_on()
    stage.turn_to(ca=renewed.certificate_pem)
    stage.turn_to()
    stage.turn_to_kubeconfigs()
    log = understudy.log_file.read_text()

    assert stage.load.statuses == {200}
    assert stage.load.count > 50
    assert "proxy credential not refreshed" in log
    assert all(token not in log for token in stage.tokens())


def serves(server: ApiServer, authority: CertificateAuthority) -> bool:
    """Tell whether a server shows a certificate of this authority."""
    try:
        client = ApiClient(server.url, ca_pem=authority.certificate_pem)
        return client.request("GET", "/version").status < 500
    except OSError:
        return False
