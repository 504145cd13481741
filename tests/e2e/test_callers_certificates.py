"""Certificates of every kind: both doors, ours and the API server's own, say the same of them."""

from collections.abc import Callable

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, ObjectIdentifier

from tests.support.auth_methods import (
    MIDDLE_ANCHOR,
    OVER,
    SERVERS_ROOT,
    SHORT_ROOT,
    STALE_ROOT,
    UNSEEN_ROOT,
    Stage,
    bearer,
)
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

TO_COME = Window(2, 3)
ANY_USAGE = (ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,)
UNKNOWN_USAGE = (ObjectIdentifier("1.2.3.4"),)


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


def test_who_is_called_anonymous_and_is_not_is_refused(stage: Stage) -> None:
    """Upstream would add a group to whoever is impersonated under this name."""
    ours, native = stage.both(stage.clients.issue((CN, "system:anonymous")).key_pair)

    assert native[0] == 403
    assert "system:anonymous" in native[1]["message"]
    assert ours[0] == 403
    assert "cannot be forwarded" in ours[1]["message"]


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
