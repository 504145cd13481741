import pytest

from proxy.core.errors import BadRequest
from proxy.core.http.headers import HeaderList
from proxy.core.impersonation.headers import (
    ImpersonationHeaderParser,
    ImpersonationLimits,
    parse_impersonation_headers,
)
from proxy.core.userinfo import UserInfo, make_extra

USER = (b"Impersonate-User", b"alice")


@pytest.mark.parametrize(
    ("headers", "wanted_user"),
    [
        ([], None),
        ([(b"Accept", b"*/*"), (b"X-Impersonate-User", b"a")], None),
        ([(b"Impersonate-User", b"")], None),
        ([(b"Impersonate-User", b""), (b"Impersonate-Uid", b"")], None),
        ([(b"Impersonate-Uid", b"")], None),
        ([USER], UserInfo("alice")),
        ([(b"impersonate-USER", "ünï".encode())], UserInfo("ünï")),
        ([USER, (b"Impersonate-Uid", b"1")], UserInfo("alice", uid="1")),
        ([USER, (b"Impersonate-Uid", b"")], UserInfo("alice")),
        (
            [(b"Impersonate-Group", b"b"), USER, (b"Impersonate-Group", b"a,b")],
            UserInfo("alice", groups=("b", "a,b")),
        ),
        ([USER, (b"Impersonate-Group", b"")], UserInfo("alice", groups=("",))),
        (
            [USER, (b"Impersonate-Group", b"a"), (b"Impersonate-Group", b"a")],
            UserInfo("alice", groups=("a", "a")),
        ),
        (
            [USER, (b"Impersonate-Extra-B", b"2"), (b"IMPERSONATE-EXTRA-a", b""),
             (b"impersonate-extra-b", b"1")],
            UserInfo("alice", extra=make_extra({"a": [""], "b": ["2", "1"]})),
        ),
        ([USER, (b"Impersonate-Extra-", b"v")], UserInfo("alice", extra=make_extra({"": ["v"]}))),
        (
            [USER, (b"Impersonate-Extra-Acme.io%2FProject", b"v")],
            UserInfo("alice", extra=make_extra({"acme.io/project": ["v"]})),
        ),
        (
            [USER, (b"Impersonate-Extra-%4dixed.example%2f%4bey", b"V")],
            UserInfo("alice", extra=make_extra({"Mixed.example/Key": ["V"]})),
        ),
        (
            [USER, (b"Impersonate-Extra-%ZZ%2F", b"v")],
            UserInfo("alice", extra=make_extra({"%zz%2f": ["v"]})),
        ),
        (
            [USER, (b"Impersonate-Extra-a+b_c%20%e1%9b%84", b"v")],
            UserInfo("alice", extra=make_extra({"a+b_c \u16c4": ["v"]})),
        ),
        (
            [USER, (b"Impersonate-Extra-%61", b"1"), (b"Impersonate-Extra-A", b"2")],
            UserInfo("alice", extra=make_extra({"a": ["1", "2"]})),
        ),
    ],
)  # fmt: skip
def test_headers_name_the_wanted_identity(
    headers: list[tuple[bytes, bytes]], wanted_user: UserInfo | None
) -> None:
    assert parse_impersonation_headers(headers) == wanted_user


@pytest.mark.parametrize(
    ("headers", "constrained", "former"),
    [
        (
            [(b"Impersonate-Uid", b"1234")],
            '&user.DefaultInfo{Name:"", UID:"1234", Groups:[]string(nil), '
            "Extra:map[string][]string(nil)}",
            "{UID  1234  authentication.k8s.io/v1  }",
        ),
        (
            [(b"Impersonate-Extra-Scopes", b"")],
            '&user.DefaultInfo{Name:"", UID:"", Groups:[]string(nil), '
            'Extra:map[string][]string{"scopes":[]string{""}}}',
            "{UserExtra    authentication.k8s.io/v1  scopes}",
        ),
        (
            [(b"Impersonate-User", b""), (b"Impersonate-Group", b"")],
            '&user.DefaultInfo{Name:"", UID:"", Groups:[]string{""}, '
            "Extra:map[string][]string(nil)}",
            "{Group      }",
        ),
        (
            [(b"Impersonate-Extra-B", b'"'), (b"Impersonate-Extra-A", b"x"),
             (b"Impersonate-Extra-A", b"y"), (b"Impersonate-Group", b"g"),
             (b"Impersonate-Group", b"h"), (b"Impersonate-Uid", b"u")],
            '&user.DefaultInfo{Name:"", UID:"u", Groups:[]string{"g", "h"}, '
            'Extra:map[string][]string{"a":[]string{"x", "y"}, "b":[]string{"\\""}}}',
            "{Group  g    } {Group  h    } {UserExtra  x  authentication.k8s.io/v1  a} "
            "{UserExtra  y  authentication.k8s.io/v1  a} "
            '{UserExtra  "  authentication.k8s.io/v1  b} {UID  u  authentication.k8s.io/v1  }',
        ),
    ],
)  # fmt: skip
def test_anything_without_a_user_is_refused_in_the_words_of_the_server_in_force(
    headers: list[tuple[bytes, bytes]], constrained: str, former: str
) -> None:
    with pytest.raises(BadRequest) as now:
        parse_impersonation_headers(headers)
    with pytest.raises(BadRequest) as before:
        parse_impersonation_headers(headers, constrained=False)

    assert now.value.message == f"requested {constrained} without impersonating a user name"
    assert before.value.message == f"requested [{former}] without impersonating a user"
    assert now.value.details is None


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ((b"Impersonate-User", b"bob"), "more than one Impersonate-User header"),
        ((b"Impersonate-User", b""), "more than one Impersonate-User header"),
        ((b"Impersonate", b"x"), 'unknown impersonation header "impersonate"'),
        ((b"Impersonate-Foo", b"x"), 'unknown impersonation header "impersonate-foo"'),
        ((b"Impersonate_User", b"x"), 'unknown impersonation header "impersonate_user"'),
        ((b"Impersonate-Extra_a", b"x"), 'unknown impersonation header "impersonate-extra_a"'),
        ((b"ImpersonateUser", b"x"), 'unknown impersonation header "impersonateuser"'),
        ((b"Impersonate-Group", b"\xff"), "impersonate-group header: the value is not valid UTF-8"),
        ((b"Impersonate-Group", b"a\tb"),
         "impersonate-group header: the value has control characters"),
        ((b"Impersonate-Group", b"a\r\nb"),
         "impersonate-group header: the value has control characters"),
        ((b"Impersonate-Uid", b"a\x7f"),
         "impersonate-uid header: the value has control characters"),
        ((b"Impersonate-Group", b"system:masters "),
         "impersonate-group header: the value has leading or trailing spaces"),
        ((b"Impersonate-Group", " é".encode()),
         "impersonate-group header: the value has leading or trailing spaces"),
        ((b"Impersonate-Extra-%ff", b"v"), "extra key: it is not valid UTF-8"),
        ((b"Impersonate-Extra-a\xffb", b"v"), "extra key: it is not valid UTF-8"),
        ((b"Impersonate-Extra-%zz\xff", b"v"), "extra key: it is not valid UTF-8"),
        ((b"Impersonate-Extra-a%0ab", b"v"), "extra key: it has control characters"),
        ((b"Impersonate-Extra-%4friginal-user.kube-understudy.io%2fname", b"v"),
         "extra key: it is reserved for the proxy, which names the caller in it"),
    ],
)  # fmt: skip
def test_a_header_that_could_be_read_in_two_ways_is_refused(
    header: tuple[bytes, bytes], message: str
) -> None:
    with pytest.raises(BadRequest) as refusal:
        parse_impersonation_headers([USER, header])

    assert refusal.value.message == message


def test_a_second_uid_is_refused_even_if_the_first_was_empty() -> None:
    with pytest.raises(BadRequest, match="more than one Impersonate-Uid header"):
        parse_impersonation_headers([USER, (b"Impersonate-Uid", b""), (b"Impersonate-Uid", b"1")])


LIMITS = ImpersonationLimits(groups=2, extra_values=2, value_bytes=5)


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ([(b"Impersonate-Group", b"g")] * 3, "more than 2 Impersonate-Group headers"),
        (
            [(b"Impersonate-Extra-a", b"1")] * 2 + [(b"Impersonate-Extra-b", b"1")],
            "more than 2 Impersonate-Extra- headers",
        ),
        ([(b"Impersonate-Uid", b"123456")], "impersonate-uid header: more than 5 bytes"),
        ([(b"Impersonate-Extra-abcdef", b"1")], "extra key: more than 5 bytes"),
    ],
)
def test_more_identity_than_the_limits_allow_is_refused(
    headers: list[tuple[bytes, bytes]], message: str
) -> None:
    with pytest.raises(BadRequest) as refusal:
        parse_impersonation_headers([USER, *headers], limits=LIMITS)

    assert refusal.value.message == message


def test_as_much_identity_as_the_limits_allow_is_read() -> None:
    headers = [
        (b"Impersonate-User", b"12345"),
        *[(b"Impersonate-Group", b"g")] * 2,
        *[(b"Impersonate-Extra-abcde", b"v")] * 2,
    ]

    wanted_user = parse_impersonation_headers(headers, limits=LIMITS)

    assert wanted_user == UserInfo("12345", groups=("g", "g"), extra=(("abcde", ("v", "v")),))


def test_wanted_user_is_parsed_once_for_lines_that_repeat() -> None:
    parser = ImpersonationHeaderParser(constrained=True)
    headers = HeaderList([USER, (b"Impersonate-Group", b"g")])

    wanted_users = [parser.parse(headers) for _ in range(2)]

    assert wanted_users[0] == UserInfo("alice", groups=("g",))
    assert wanted_users[0] is wanted_users[1]


def test_no_wanted_user_is_parsed_once_as_well() -> None:
    parser = ImpersonationHeaderParser(constrained=True)
    headers = HeaderList([(b"Accept", b"a")])

    assert [parser.parse(headers) for _ in range(2)] == [None, None]
    assert headers.wanted_user == (parser, None)


def test_other_limits_parse_the_same_lines_again() -> None:
    headers = HeaderList([USER, *[(b"Impersonate-Group", b"g")] * 4])
    ImpersonationHeaderParser(constrained=True).parse(headers)

    with pytest.raises(BadRequest):
        ImpersonationHeaderParser(LIMITS, constrained=True).parse(headers)


def test_invalid_headers_are_rejected_each_time() -> None:
    parser = ImpersonationHeaderParser(constrained=True)
    headers = HeaderList([USER, USER])

    for _ in range(2):
        with pytest.raises(BadRequest):
            parser.parse(headers)


def test_error_of_the_former_filter_depends_on_the_parser() -> None:
    headers = HeaderList([(b"Impersonate-Group", b"g")])

    for constrained, text in ((True, "user.DefaultInfo"), (False, "{Group  g    }")):
        with pytest.raises(BadRequest) as rejected:
            ImpersonationHeaderParser(constrained=constrained).parse(headers)
        assert text in rejected.value.message
