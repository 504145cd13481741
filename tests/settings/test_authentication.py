"""The `authentication` section: which combinations of methods and keys are accepted."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from proxy.settings.authentication import (
    AnonymousSettings,
    AuthenticationSettings,
    ClientCertificateSettings,
    FrontProxySettings,
    TokenReviewSettings,
)

Keys = dict[str, object]


def read(**keys: object) -> AuthenticationSettings:
    return AuthenticationSettings.model_validate(keys)


def test_bearer_tokens_are_the_only_method_by_default() -> None:
    settings = read()

    assert settings.token_review.enabled
    assert not settings.client_certificate.is_enabled
    assert settings.front_proxy.ca_file is None
    assert not settings.front_proxy.from_cluster
    assert not settings.anonymous.enabled


@pytest.mark.parametrize(
    "method",
    [
        {"clientCertificate": {"caFile": "a"}},
        {"clientCertificate": {"fromCluster": True}},
        {"frontProxy": {"caFile": "a"}},
        {"frontProxy": {"fromCluster": True}},
        {"anonymous": {"enabled": True}},
    ],
    ids=str,
)
def test_any_method_is_enough_without_token_reviews(method: Keys) -> None:
    assert read(tokenReview={"enabled": False}, **method).can_authenticate


@pytest.mark.parametrize(
    "others", [{}, {"frontProxy": {"allowedNames": ["a"]}}, {"anonymous": {}}], ids=str
)
def test_section_without_any_method_is_an_error(others: Keys) -> None:
    with pytest.raises(ValidationError, match="no caller could be authenticated"):
        read(tokenReview={"enabled": False}, **others)


def test_cluster_may_be_the_source_of_client_and_front_proxy_cas_together() -> None:
    settings = read(clientCertificate={"fromCluster": True}, frontProxy={"fromCluster": True})

    assert settings.client_certificate.from_cluster
    assert settings.front_proxy.from_cluster


@pytest.mark.parametrize(
    ("keys", "is_enabled"),
    [({}, False), ({"caFile": "a"}, True), ({"fromCluster": True}, True)],
    ids=str,
)
def test_client_certificates_are_enabled_by_a_ca_of_either_source(
    keys: Keys, *, is_enabled: bool
) -> None:
    assert ClientCertificateSettings.model_validate(keys).is_enabled is is_enabled


def test_client_ca_from_a_file_and_from_the_cluster_is_an_error() -> None:
    with pytest.raises(ValidationError, match="caFile and fromCluster are mutually exclusive"):
        ClientCertificateSettings.model_validate({"caFile": "a", "fromCluster": True})


def test_front_proxy_headers_have_the_names_of_kubernetes_by_default() -> None:
    settings = FrontProxySettings.model_validate({"caFile": "ca.crt"})

    assert settings.ca_file == Path("ca.crt")
    assert settings.username_headers == ("X-Remote-User",)
    assert settings.uid_headers == ("X-Remote-Uid",)
    assert settings.group_headers == ("X-Remote-Group",)
    assert settings.extra_header_prefixes == ("X-Remote-Extra-",)
    assert settings.allowed_names == ()


@pytest.mark.parametrize(
    "other",
    [
        {"caFile": "a"},
        {"allowedNames": ["a"]},
        {"usernameHeaders": ["X-Remote-User"]},
        {"groupHeaders": []},
    ],
    ids=str,
)
def test_front_proxy_from_the_cluster_excludes_every_other_key(other: Keys) -> None:
    # A key counts even with its default value: the cluster would override what is written.
    with pytest.raises(ValidationError, match="fromCluster excludes every other key"):
        FrontProxySettings.model_validate({"fromCluster": True, **other})
    read_alone = FrontProxySettings.model_validate({"fromCluster": False, **other})
    assert read_alone.model_fields_set > {"from_cluster"}


def test_front_proxy_needs_a_user_name_header_but_no_other_header() -> None:
    with pytest.raises(ValidationError, match="usernameHeaders must not be empty"):
        FrontProxySettings.model_validate({"usernameHeaders": []})

    keys: Keys = {"uidHeaders": [], "groupHeaders": [], "extraHeaderPrefixes": []}
    assert FrontProxySettings.model_validate(keys).group_headers == ()


@pytest.mark.parametrize(
    "key", ["usernameHeaders", "uidHeaders", "groupHeaders", "extraHeaderPrefixes"]
)
@pytest.mark.parametrize("name", ["", "X Group", "X:Group", "X-Gr\u00fc", "X-Group\n"], ids=repr)
def test_invalid_header_name_is_an_error(key: str, name: str) -> None:
    with pytest.raises(ValidationError, match="is not a valid header name"):
        FrontProxySettings.model_validate({key: ["X-Valid", name]})
    valid = FrontProxySettings.model_validate({key: ["X-Valid", "x_1.2~"]})
    assert valid.model_dump(by_alias=True)[key] == ("X-Valid", "x_1.2~")


def test_anonymous_paths_are_exact_and_need_anonymous_requests() -> None:
    settings = AnonymousSettings.model_validate({"enabled": True, "paths": ["/livez", "/readyz"]})

    assert settings.paths == ("/livez", "/readyz")
    with pytest.raises(ValidationError, match="paths needs enabled: true"):
        AnonymousSettings.model_validate({"paths": ["/livez"]})
    with pytest.raises(ValidationError, match="paths must begin with /"):
        AnonymousSettings.model_validate({"enabled": True, "paths": ["/livez", "readyz"]})


def test_token_review_durations_are_read_under_their_keys_without_unit() -> None:
    settings = TokenReviewSettings.model_validate(
        {"successTTL": "0s", "timeout": "500ms", "audiences": ["a", "b"]}
    )

    assert settings.success_ttl_seconds == 0.0
    assert settings.timeout_seconds == 0.5
    assert settings.audiences == ("a", "b")


@pytest.mark.parametrize(
    "keys",
    [
        {"timeout": "0s"},
        {"inFlight": 0},
        {"perAddressPerSecond": 0},
        {"perAddressBurst": -1},
        {"tokenBytes": 0},
        {"audiences": "a"},
        {"enabled": "true"},
        {"enabled": 1},
    ],
    ids=str,
)
def test_token_review_value_without_meaning_is_an_error(keys: Keys) -> None:
    with pytest.raises(ValidationError) as raised:
        TokenReviewSettings.model_validate(keys)
    assert [error["loc"][0] for error in raised.value.errors()] == list(keys)
