"""Who is calling: the API server asked directly, and through the proxy, must say the same.

One API server with many CAs and anonymous paths, and a proxy before it that is told the same. What
both tell is a whole SelfSubjectReview, or the whole refusal.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, ObjectIdentifier

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import ApiServer, ApiServerOptions
from proxy.sandbox.control_plane import FRONT_PROXY_NAME, ControlPlane
from proxy.sandbox.identities import Authority, BearerToken, Credential
from proxy.sandbox.objects import (
    create_namespace,
    create_node,
    create_pod,
    create_service_account,
    grant,
    token_for,
)
from proxy.sandbox.proxy_process import ProxyProcess
from tests.support.chains import (
    CN,
    FOR_SERVERS,
    NO_USAGE,
    ORG,
    UID,
    Attribute,
    Issuer,
    Shown,
    Window,
    name_attribute,
)

pytestmark = pytest.mark.timeout(90)

REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
OPEN_PATHS = ["/livez", "/healthz"]
Lines = tuple[tuple[str | bytes, str | bytes], ...]
OVER, TO_COME = Window(-3, -2), Window(2, 3)
ANY_USAGE = (ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,)
UNKNOWN_USAGE = (ObjectIdentifier("1.2.3.4"),)

STALE_ROOT = Issuer("stale root", window=OVER)
SERVERS_ROOT = Issuer("servers' root", usages=FOR_SERVERS)
SHORT_ROOT = Issuer("short root", path_length=0)
UNSEEN_ROOT = Issuer("unseen root")
MIDDLE_ANCHOR = Issuer("middle anchor", UNSEEN_ROOT)
MORE_ROOTS = (STALE_ROOT, SERVERS_ROOT, SHORT_ROOT, MIDDLE_ANCHOR)


def issuing(authority: Authority) -> Issuer:
    """Return the authority as one that signs odd things, too."""
    certificate = x509.load_pem_x509_certificate(authority.certificate_pem)
    (name,) = certificate.subject.get_attributes_for_oid(CN)
    return Issuer(str(name.value), key=authority._key)


@dataclass(frozen=True)
class Stage:
    """Two doors, and who can certify."""

    native: ApiServer
    ours: ProxyProcess
    clients: Issuer
    front_proxies: Issuer
    tokens: Mapping[str, BearerToken] = field(default_factory=dict)

    def both(
        self,
        credential: Credential,
        headers: Lines = (),
        *,
        method: str = "POST",
        path: str = REVIEWS,
    ) -> tuple[Any, Any]:
        """Return what is told at both doors, ours first."""
        ours, native = (
            told(door.client(credential), headers, method, path)
            for door in (self.ours, self.native)
        )
        return ours, native


def told(client: ApiClient, headers: Lines, method: str, path: str) -> Any:
    body = REVIEW if method == "POST" else None
    answer = client.request(method, path, headers=headers, body=body)
    if answer.header("Content-Type") != "application/json":
        return answer.status, answer.body
    document = answer.json()
    return answer.status, document["status"]["userInfo"] if answer.status == 201 else document


@pytest.fixture(scope="module")
def api_server(control_plane: ControlPlane) -> Iterator[ApiServer]:
    directory = control_plane.directory
    bundle = directory / "many-client-cas.crt"
    bundle.write_bytes(
        b"".join([control_plane.clients.certificate_pem, *(root.pem for root in MORE_ROOTS)])
    )
    configuration = directory / "anonymous.yaml"
    conditions = [f"{{path: {path}}}" for path in OPEN_PATHS]
    configuration.write_text(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"
        f"anonymous: {{enabled: true, conditions: [{', '.join(conditions)}]}}\n"
    )
    options = ApiServerOptions(
        name="callers",
        etcd_prefix="/callers",
        extra_flags=(f"--client-ca-file={bundle}", f"--authentication-config={configuration}"),
    )
    with closing(control_plane.start_api_server(options)) as server:
        # Else whoever is not authenticated could not ask who it is.
        ask = {
            "apiGroups": ["authentication.k8s.io"],
            "resources": ["selfsubjectreviews"],
            "verbs": ["create"],
        }
        everybody = {"kind": "Group", "name": "system:unauthenticated"}
        grant(server.admin, "ask-who-one-is", rules=[ask], to=everybody)
        yield server


@pytest.fixture(scope="module")
def understudy(control_plane: ControlPlane, api_server: ApiServer) -> Iterator[ProxyProcess]:
    directory = control_plane.directory
    authentication = {
        "clientCertificate": {"caFile": str(directory / "many-client-cas.crt")},
        "frontProxy": {
            "caFile": str(directory / "front-proxy-ca.crt"),
            "allowedNames": [FRONT_PROXY_NAME],
        },
        "anonymous": {"enabled": True, "paths": OPEN_PATHS},
    }
    settings = {"authentication": authentication}
    with ProxyProcess(control_plane, api_server, settings=settings) as running:
        yield running


@pytest.fixture(scope="module")
def stage(control_plane: ControlPlane, api_server: ApiServer, understudy: ProxyProcess) -> Stage:
    return Stage(
        api_server,
        understudy,
        issuing(control_plane.clients),
        issuing(control_plane.front_proxies),
        tokens_of(control_plane, api_server.admin),
    )


def tokens_of(control_plane: ControlPlane, admin: ApiClient) -> dict[str, BearerToken]:
    create_namespace(admin, "callers")
    create_node(admin, "node-1")
    create_service_account(admin, "callers", "agent")
    pod = create_pod(admin, "callers", "agent-pod", node="node-1", service_account="agent")
    return {
        "of a service account": token_for(admin, "callers", "agent"),
        "bound to a pod": token_for(admin, "callers", "agent", pod=pod),
        "for somebody else": token_for(admin, "callers", "agent", audiences=["elsewhere"]),
        "of a user": control_plane.token_users["alice"].token,
        "of a user without groups": control_plane.token_users["carol"].token,
        "nobody's": BearerToken("nonsense"),
        "cut": BearerToken(token_for(admin, "callers", "agent").value[:-5]),
    }


def user(*attributes: Attribute) -> Callable[[Stage], Shown]:
    return lambda stage: stage.clients.issue(*attributes)


def in_one_rdn(*attributes: Attribute) -> Callable[[Stage], Shown]:
    names = [name_attribute(*attribute) for attribute in attributes]
    subject = x509.Name([x509.RelativeDistinguishedName(names)])
    return lambda stage: stage.clients.issue(subject=subject)


ALICE = (CN, "alice")

KNOWN: dict[str, Callable[[Stage], Shown]] = {
    "a name": user(ALICE),
    "groups in order": user((ORG, "b"), (ORG, "a"), ALICE, (ORG, "b")),
    "an empty group": user((ORG, ""), (ORG, "a"), ALICE),
    "two names": user((CN, "first"), (ORG, "a"), (CN, "last")),
    "two names in one": in_one_rdn((CN, "zoe"), (CN, "ada")),
    "name and groups in one": in_one_rdn(ALICE, (ORG, "z"), (ORG, "a"), (UID, "7")),
    "a uid": user(ALICE, (UID, "u-1")),
    "a name in another script": user((CN, "Ünï-код"), (ORG, "グループ")),
    "blanks inside": user((CN, "alice von b"), (ORG, "a  b")),
    "a long name": user((CN, "x" * 300), (ORG, "y" * 300)),
    "a node": user((CN, "system:node:node-1"), (ORG, "system:nodes")),
    "the name of a service account": user((CN, "system:serviceaccount:callers:agent")),
    "authenticated before": user(ALICE, (ORG, "system:authenticated"), (ORG, "a")),
    "unauthenticated, it says": user(ALICE, (ORG, "system:unauthenticated")),
    "anonymous, it says, and so in a group": user(
        (CN, "system:anonymous"), (ORG, "system:unauthenticated")
    ),
    "no usage": lambda stage: stage.clients.issue(ALICE, usages=NO_USAGE),
    "any usage": lambda stage: stage.clients.issue(ALICE, usages=ANY_USAGE),
    "both usages": lambda stage: stage.clients.issue(ALICE, usages=(*FOR_SERVERS, *ANY_USAGE)),
    "a certificate between": lambda stage: Issuer("m", stage.clients).issue(ALICE),
    "two between": lambda stage: Issuer("n", Issuer("m", stage.clients)).issue(ALICE),
    "two between, mixed up": lambda stage: mixed_up(
        Issuer("n", Issuer("m", stage.clients)).issue(ALICE)
    ),
    "an anchor that is no root": lambda _: MIDDLE_ANCHOR.issue(ALICE).alone,
    "an anchor that is no root, shown as well": lambda _: MIDDLE_ANCHOR.issue(ALICE),
    "a root for one step": lambda _: SHORT_ROOT.issue(ALICE),
    "a root shown as well": lambda stage: with_root(stage.clients.issue(ALICE), stage.clients),
    "an RSA key": lambda stage: stage.clients.issue(
        ALICE, key=rsa.generate_private_key(65537, 2048)
    ),
    "an extension nobody knows": lambda stage: stage.clients.issue(
        ALICE, extensions=[unknown_extension(critical=False)]
    ),
}

UNKNOWN: dict[str, Callable[[Stage], Shown]] = {
    "two uids": user(ALICE, (UID, "1"), (UID, "2")),
    "an empty uid": user(ALICE, (UID, "")),
    "no name": user((ORG, "a")),
    "an empty name": user((CN, "")),
    "an empty last name": user(ALICE, (CN, "")),
    "for servers": lambda stage: stage.clients.issue(ALICE, usages=FOR_SERVERS),
    "for something else": lambda stage: stage.clients.issue(ALICE, usages=UNKNOWN_USAGE),
    "over": lambda stage: stage.clients.issue(ALICE, window=OVER),
    "to come": lambda stage: stage.clients.issue(ALICE, window=TO_COME),
    "a stranger": lambda _: Issuer("stranger").issue(ALICE),
    "a CA of the same name": lambda stage: Issuer(stage.clients.name).issue(ALICE),
    "signed by itself": lambda _: by_itself(),
    "one between is not shown": lambda stage: Issuer("m", stage.clients).issue(ALICE).alone,
    "one between is over": lambda stage: Issuer("m", stage.clients, window=OVER).issue(ALICE),
    "one between is for servers": lambda stage: Issuer(
        "m", stage.clients, usages=FOR_SERVERS
    ).issue(ALICE),
    "one between is a client": lambda stage: Issuer("m", stage.clients, is_ca=False).issue(ALICE),
    "one between too many": lambda _: Issuer("m", SHORT_ROOT).issue(ALICE),
    "a root that is over": lambda _: STALE_ROOT.issue(ALICE),
    "a root for servers": lambda _: SERVERS_ROOT.issue(ALICE),
    "the issuer of an anchor": lambda _: UNSEEN_ROOT.issue(ALICE),
    "an extension that must be known": lambda stage: stage.clients.issue(
        ALICE, extensions=[unknown_extension(critical=True)]
    ),
}


def mixed_up(shown: Shown) -> Shown:
    own, *others = shown.certificates
    return Shown((own, *reversed(others)), shown.key)


def with_root(shown: Shown, root: Issuer) -> Shown:
    return Shown((*shown.certificates, root.certificate), shown.key)


def by_itself() -> Shown:
    own = Issuer("alice")
    return Shown((own.certificate,), own.key)


def unknown_extension(*, critical: bool) -> x509.Extension[x509.ExtensionType]:
    oid = ObjectIdentifier("1.2.3.4")
    return x509.Extension(oid, critical, x509.UnrecognizedExtension(oid, b"\x05\x00"))


@pytest.mark.parametrize("shown", KNOWN.values(), ids=KNOWN)
def test_a_certificate_that_is_believed_is_the_same_user(
    stage: Stage, shown: Callable[[Stage], Shown]
) -> None:
    ours, native = stage.both(shown(stage).key_pair)

    assert ours == native
    assert native[0] == 201


@pytest.mark.parametrize("shown", UNKNOWN.values(), ids=UNKNOWN)
def test_a_certificate_that_is_not_believed_is_a_401_and_a_token_is_still_tried(
    stage: Stage, shown: Callable[[Stage], Shown]
) -> None:
    certificate = shown(stage).key_pair
    good, bad = (bearer(stage, name) for name in ("of a user", "nobody's"))

    alone, with_good, with_bad = (
        stage.both(certificate, headers) for headers in ((), (good,), (bad,))
    )

    for ours, native in (alone, with_good, with_bad):
        assert ours == native
    assert [native[0] for _, native in (alone, with_good, with_bad)] == [401, 201, 401]
    assert with_good[0][1]["username"] == "alice"
    # Not even where anybody may call.
    open_path = stage.both(certificate, method="GET", path="/livez")
    assert open_path[0] == open_path[1]
    assert open_path[1][0] == 401


def bearer(stage: Stage, name: str) -> tuple[str, str]:
    return ("Authorization", f"Bearer {stage.tokens[name].value}")


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("of a service account", 201),
        ("bound to a pod", 201),
        ("of a user", 201),
        ("of a user without groups", 201),
        ("for somebody else", 401),
        ("nobody's", 401),
        ("cut", 401),
    ],
)
def test_a_token_is_the_same_user(stage: Stage, name: str, status: int) -> None:
    ours, native = stage.both(stage.tokens[name])

    assert ours == native
    assert native[0] == status


def test_a_good_certificate_comes_before_any_token(stage: Stage) -> None:
    for token in ("of a service account", "nobody's"):
        ours, native = stage.both(
            stage.clients.issue((CN, "dave")).key_pair, (bearer(stage, token),)
        )

        assert ours == native
        assert native[1]["username"] == "dave"


SPOKEN_FOR: dict[str, Lines] = {
    "a user": (("X-Remote-User", "bob"),),
    "all of a user": (
        ("X-Remote-User", "bob"),
        ("X-Remote-Uid", "7"),
        ("X-Remote-Group", "b"),
        ("X-Remote-Group", "a"),
        ("X-Remote-Group", "b"),
        ("X-Remote-Extra-Key", "1"),
        ("X-Remote-Extra-Key", "2"),
        ("X-Remote-Extra-example.com%2Fscope", "all"),
    ),
    "odd keys": (
        ("X-Remote-User", "bob"),
        ("X-Remote-Extra-%4dixed.Example%2f%4bey", "x"),
        ("X-Remote-Extra-broken%zz", "y"),
        ("X-Remote-Extra-plus+", "z"),
    ),
    "empty values": (
        ("X-Remote-User", "bob"),
        ("X-Remote-Group", ""),
        ("X-Remote-Group", "a"),
        ("X-Remote-Extra-Key", ""),
        ("X-Remote-Uid", ""),
        ("X-Remote-Uid", "7"),
    ),
    "two users": (("X-Remote-User", "bob"), ("X-Remote-User", "carol")),
    "another script": (("X-Remote-User", "Ünï"), ("X-Remote-Group", "グ")),
    "look-alikes": (("X-Remote-User", "bob"), ("X_Remote_Group", "a"), ("X-Remote-Groups", "b")),
    "a service account": (
        ("X-Remote-User", "system:serviceaccount:callers:agent"),
        ("X-Remote-Group", "system:serviceaccounts"),
        ("X-Remote-Extra-authentication.kubernetes.io%2Fnode-name", "node-1"),
    ),
    "somebody unauthenticated": (
        ("X-Remote-User", "bob"),
        ("X-Remote-Group", "system:unauthenticated"),
    ),
    "anonymous": (
        ("X-Remote-User", "system:anonymous"),
        ("X-Remote-Group", "system:unauthenticated"),
    ),
}


def utf8(lines: Lines) -> Lines:
    return tuple(
        (name, value.encode() if isinstance(value, str) else value) for name, value in lines
    )


@pytest.mark.parametrize("lines", SPOKEN_FOR.values(), ids=SPOKEN_FOR)
def test_a_front_proxy_speaks_for_the_same_user(stage: Stage, lines: Lines) -> None:
    front_proxy = stage.front_proxies.issue((CN, FRONT_PROXY_NAME)).key_pair

    ours, native = stage.both(front_proxy, utf8(lines))

    assert ours == native
    assert native[0] == 201


@pytest.mark.parametrize(
    ("issuer", "name", "lines", "status"),
    [
        ("front", FRONT_PROXY_NAME, (), 401),
        ("front", FRONT_PROXY_NAME, (("X-Remote-User", ""),), 401),
        ("front", FRONT_PROXY_NAME, (("X-Remote-User", ""), ("X-Remote-User", "bob")), 401),
        ("front", FRONT_PROXY_NAME, (("X_Remote_User", "bob"),), 401),
        ("front", FRONT_PROXY_NAME, (("X-Remote-Group", "a"),), 401),
        ("front", "another", (("X-Remote-User", "bob"),), 401),
        ("clients", "alice", (("X-Remote-User", "bob"),), 201),
        ("clients", FRONT_PROXY_NAME, (("X-Remote-User", "bob"),), 201),
        ("stranger", FRONT_PROXY_NAME, (("X-Remote-User", "bob"),), 401),
    ],
    ids=[
        "silent",
        "an empty user",
        "an empty user first",
        "a look-alike",
        "only a group",
        "a name that is not allowed",
        "a user",
        "a user of its name",
        "a stranger of its name",
    ],
)
def test_whoever_else_says_so_speaks_for_nobody(
    stage: Stage, issuer: str, name: str, lines: Lines, status: int
) -> None:
    issuers = {
        "front": stage.front_proxies,
        "clients": stage.clients,
        "stranger": Issuer(stage.front_proxies.name),
    }
    credential = issuers[issuer].issue((CN, name)).key_pair

    for headers in (lines, (*lines, bearer(stage, "bound to a pod"))):
        ours, native = stage.both(credential, headers)
        assert ours == native
        if headers == lines:
            assert native[0] == status
        if native[0] == 201:
            assert native[1]["username"] != "bob"


def test_a_front_proxy_s_word_comes_before_a_token(stage: Stage) -> None:
    front_proxy = stage.front_proxies.issue((CN, FRONT_PROXY_NAME)).key_pair

    ours, native = stage.both(front_proxy, (("X-Remote-User", "bob"), bearer(stage, "of a user")))

    assert ours == native
    assert native[1]["username"] == "bob"


ODD_TEXTS = {
    "a blank before": " admin",
    "a blank after": "admin ",
    "a line break": "ad\nmin",
    "a tab": "ad\tmin",
    "a null": "ad\0min",
}


@pytest.mark.parametrize("text", ODD_TEXTS.values(), ids=ODD_TEXTS)
@pytest.mark.parametrize("attribute", [CN, ORG, UID], ids=["name", "group", "uid"])
def test_what_would_change_on_its_way_is_refused_and_not_altered(
    stage: Stage, attribute: ObjectIdentifier, text: str
) -> None:
    attributes = [(attribute, text)] if attribute == CN else [ALICE, (attribute, text)]

    ours, native = stage.both(stage.clients.issue(*attributes).key_pair)

    assert native[0] == 201, "natively it is somebody"
    assert ours[0] == 403
    assert "cannot be forwarded" in ours[1]["message"]


def test_bytes_that_are_no_text_are_refused_from_a_front_proxy(stage: Stage) -> None:
    front_proxy = stage.front_proxies.issue((CN, FRONT_PROXY_NAME)).key_pair

    ours, native = stage.both(
        front_proxy, ((b"X-Remote-User", b"bob"), (b"X-Remote-Group", b"system:masters\xff"))
    )

    assert native[0] == 201
    assert ours[0] == 403


def test_who_is_called_anonymous_and_is_not_is_refused(stage: Stage) -> None:
    """Upstream would add a group to whoever is impersonated under this name."""
    ours, native = stage.both(stage.clients.issue((CN, "system:anonymous")).key_pair)

    assert native[0] == 403
    assert "system:anonymous" in native[1]["message"]
    assert ours[0] == 403
    assert "cannot be forwarded" in ours[1]["message"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/livez", 200),
        ("/livez?verbose", 200),
        ("/healthz", 200),
        ("/live%7a", 200),
        ("/livez/", 401),
        ("/livez/ping", 401),
        ("/readyz", 401),
        ("/", 401),
        ("/api", 401),
        ("/version", 401),
    ],
)
def test_anybody_may_call_where_that_is_allowed_and_nowhere_else(
    stage: Stage, path: str, status: int
) -> None:
    ours, native = stage.both(None, method="GET", path=path)

    assert ours == native
    assert native[0] == status


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ((("Authorization", "Basic YTpi"),), 200),
        ((("Authorization", "Bearer"),), 200),
        ((("X-Remote-User", "bob"),), 200),
        ((("Authorization", "Bearer nonsense"),), 401),
    ],
    ids=["another scheme", "no token", "headers", "a bad token"],
)
def test_a_bad_credential_is_not_anonymous_and_what_is_none_is(
    stage: Stage, lines: Lines, status: int
) -> None:
    ours, native = stage.both(None, lines, method="GET", path="/livez")

    assert ours == native
    assert native[0] == status


def test_each_request_of_a_connection_is_judged_for_itself(stage: Stage) -> None:
    """A stale certificate that brings a token now and then: the connection is of no matter."""
    stale = stage.clients.issue(ALICE, window=OVER).key_pair
    seen = []
    for door in (stage.ours, stage.native):
        with door.client(stale).connect() as connection:
            seen.append(
                [
                    connection.request("GET", "/api", headers=headers).status
                    for headers in ((), (bearer(stage, "of a user"),), ())
                ]
            )

    assert seen == [[401, 200, 401], [401, 200, 401]]


def test_impersonation_works_on_top_of_a_front_proxy_s_word(stage: Stage) -> None:
    front_proxy = stage.front_proxies.issue((CN, FRONT_PROXY_NAME)).key_pair
    lines = (("X-Remote-User", "bob"), ("Impersonate-User", "carol"))

    ours, native = stage.both(front_proxy, lines)

    assert ours == native
    assert native[0] == 403
    assert 'User "bob" cannot impersonate' in native[1]["message"]
