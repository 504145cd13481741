"""The config file is read whole, or every reason why not is told."""

from pathlib import Path

import pytest

from proxy.settings.loader import RENAMED_KEYS, ConfigError, load_settings, parse_settings
from proxy.settings.model import Settings

FILE = Path("/etc/understudy/config.yaml")
MINIMAL = """\
apiVersion: kube-understudy.io/v1alpha1
kind: ProxyConfiguration
serving:
  certificateFile: tls.crt
  keyFile: tls.key
"""


def parse(more: str = "", *, text: str = MINIMAL) -> Settings:
    return parse_settings(text + more, file=FILE)


def problems(more: str = "", *, text: str = MINIMAL) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        parse(more, text=text)
    return refused.value.problems


def test_what_is_not_said_is_the_safe_default() -> None:
    settings = parse()

    assert settings.serving.address == ("0.0.0.0", 8443)
    assert settings.authentication.client_certificate.ca_file is None
    assert settings.authentication.token_review.enabled
    assert settings.authentication.token_review.success_ttl_seconds == 10.0
    assert settings.upstream.kubeconfig is None
    assert settings.upstream.response_timeout_seconds == 70.0
    assert settings.impersonation.protected_groups == ("system:masters",)
    assert settings.impersonation.legacy_ttl_seconds == 0.0
    assert settings.log.level == "info"


def test_everything_can_be_said() -> None:
    settings = parse(
        """\
  address: "[::1]:9443"
authentication:
  clientCertificate: {caFile: /ca.crt}
  tokenReview: {enabled: false, audiences: [proxy, other], successTTL: 1m30s}
upstream: {kubeconfig: sub/kubeconfig, connectTimeout: 500ms, responseTimeout: 2m}
log: {format: text, level: debug}
"""
    )

    assert settings.serving.address == ("::1", 9443)
    assert settings.authentication.client_certificate.ca_file == Path("/ca.crt")
    assert settings.authentication.token_review.audiences == ("proxy", "other")
    assert settings.authentication.token_review.success_ttl_seconds == 90.0
    assert settings.upstream.connect_timeout_seconds == 0.5
    assert settings.log.format == "text"


def test_whoever_asks_the_cluster_may_do_so_for_both() -> None:
    settings = parse(
        """\
authentication:
  clientCertificate: {fromCluster: true}
  frontProxy: {fromCluster: true}
  tokenReview: {enabled: false}
  anonymous: {enabled: true, paths: [/livez, /readyz]}
"""
    )

    assert settings.authentication.client_certificate.from_cluster
    assert settings.authentication.front_proxy.from_cluster
    assert settings.authentication.anonymous.paths == ("/livez", "/readyz")


def test_nobody_speaks_for_others_or_is_anonymous_unless_that_is_said() -> None:
    authentication = parse().authentication

    assert authentication.front_proxy.ca_file is None
    assert not authentication.front_proxy.from_cluster
    assert not authentication.client_certificate.from_cluster
    assert not authentication.anonymous.enabled


def test_relative_paths_are_relative_to_the_file() -> None:
    settings = parse("upstream: {kubeconfig: sub/kubeconfig}\n")

    assert settings.serving.certificate_file == Path("/etc/understudy/tls.crt")
    assert settings.upstream.kubeconfig == Path("/etc/understudy/sub/kubeconfig")


def test_every_problem_is_told_together_with_its_path() -> None:
    text = """\
apiVersion: kube-understudy.io/v2
kind: ProxyConfiguration
serving:
  address: nowhere
  certificateFile: 5
  certificatefile: tls.crt
authentication:
  tokenReview: {enabled: "yes", audiences: proxy, successTTL: 10}
  oidc: {}
upstream: {connectTimeout: 0s, responseTimeout: soon}
impersonation: {legacy: perhaps, limits: {groups: 0}}
log: {level: loud}
"""

    assert sorted(problem.partition(":")[0] for problem in problems(text=text)) == [
        "apiVersion",
        "authentication.oidc",
        "authentication.tokenReview.audiences",
        "authentication.tokenReview.enabled",
        "authentication.tokenReview.successTTL",
        "impersonation.legacy.default",
        "impersonation.limits.groups",
        "log.level",
        "serving.address",
        "serving.certificateFile",
        "serving.certificatefile",
        "serving.keyFile",
        "upstream.connectTimeout",
        "upstream.responseTimeout",
    ]


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("colour: red\n", "colour: unknown key"),
        ("impersonation: {modeMemory: true}\n",
         "impersonation.modeMemory: was renamed: use impersonation.modeCache"),
        ("upstream: {kubeConfig: a}\n", "upstream.kubeConfig: unknown key"),
        ("upstream: {response_timeout_seconds: 1s}\n",
         "upstream.response_timeout_seconds: unknown key"),
        ("upstream: {kubeconfig: ''}\n", "upstream.kubeconfig: must be the path of a file"),
        ('upstream: {kubeconfig: "a\\0b"}\n', "upstream.kubeconfig: must be the path of a file"),
        ("upstream: {extras: {a.io/b: hide}}\n",
         "upstream.extras.a.io/b: Input should be 'forward', 'drop' or 'refuse'"),
        ("upstream: {extras: {'': drop}}\n",
         "upstream.extras..[key]: String should have at least 1 character"),
        ("upstream: {connectTimeout: 0s}\n",
         "upstream.connectTimeout: Input should be greater than 0"),
        ("authentication: {tokenReview: {enabled: false}}\n",
         "authentication: no caller could be authenticated: tokenReview is off, and "
         "clientCertificate.caFile is absent"),
        ("authentication: {clientCertificate: {caFile: a, fromCluster: true}}\n",
         "authentication.clientCertificate: caFile and fromCluster are mutually exclusive"),
        ("authentication: {frontProxy: {fromCluster: true, allowedNames: [a]}}\n",
         "authentication.frontProxy: fromCluster excludes every other key of this section"),
        ("authentication: {frontProxy: {usernameHeaders: []}}\n",
         "authentication.frontProxy: usernameHeaders must not be empty"),
        ("authentication: {frontProxy: {groupHeaders: [X Group]}}\n",
         "authentication.frontProxy.groupHeaders: 'X Group' is not a valid header name"),
        ("authentication: {anonymous: {paths: [/livez]}}\n",
         "authentication.anonymous: paths needs enabled: true"),
        ("authentication: {anonymous: {enabled: true, paths: [livez]}}\n",
         "authentication.anonymous: paths must begin with /"),
    ],
)  # fmt: skip
def test_a_problem_is_one_line_that_says_what_to_mend(more: str, problem: str) -> None:
    assert problems(more) == [problem]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param(MINIMAL + "kind: Other\n", "'kind' twice", id="twice at the top"),
        pytest.param(MINIMAL + "  keyFile: b\n", "'keyFile' twice", id="twice inside"),
        pytest.param("a: {b: 1, b: 1}\n", "'b' twice", id="twice in one line"),
        pytest.param("? [a, b]\n: c\n", "not a name", id="a list as a key"),
        pytest.param("? {a: b}\n: c\n", "not a name", id="a mapping as a key"),
        pytest.param("a: [\n", "is not YAML", id="unfinished"),
        pytest.param("a: b\n---\nc: d\n", "is not YAML", id="two documents"),
        pytest.param("a: !!python/name:os.system x\n", "is not YAML", id="a Python object"),
        pytest.param("a: &a [*a]\n", "is not YAML", id="a list in itself"),
        pytest.param("", "is not a mapping", id="empty"),
        pytest.param("- a\n", "is not a mapping", id="a list"),
        pytest.param("text\n", "is not a mapping", id="a text"),
    ],
)
def test_what_is_no_config_file_is_told_in_one_line_each(text: str, says: str) -> None:
    found = problems(text=text)

    assert any(says in problem for problem in found)
    assert all("\n" not in problem for problem in found)


def test_a_file_is_read_from_where_it_is(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(MINIMAL)

    assert load_settings(file).serving.key_file == tmp_path / "tls.key"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")

    for file, reason in (
        (tmp_path / "absent", "No such file"),
        (tmp_path, "Is a directory"),
        (binary, "not UTF-8"),
    ):
        with pytest.raises(ConfigError, match=reason) as refused:
            load_settings(file)
        assert refused.value.file == file


def test_settings_cannot_be_changed() -> None:
    settings = parse()

    with pytest.raises(ValueError, match="frozen"):
        settings.log = settings.log  # type: ignore[misc]  # what must not work


@pytest.mark.parametrize(("old", "new"), RENAMED_KEYS.items())
def test_renamed_key_gives_an_error_that_names_the_new_key(old: str, new: str) -> None:
    def found(path: str) -> list[str]:
        section, _, key = path.rpartition(".")
        opening = "".join(f"{part}: {{" for part in section.split("."))
        text = MINIMAL if not section.startswith("serving") else MINIMAL.partition("serving:")[0]
        return problems(f"{opening}{key}: []" + "}" * (section.count(".") + 1) + "\n", text=text)

    assert f"{old}: was renamed: use {new}" in found(old)
    assert f"{new}: unknown key" not in found(new)
    assert any(problem.startswith(f"{new}: ") for problem in found(new))
