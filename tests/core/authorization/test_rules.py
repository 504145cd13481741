import pytest

from proxy.core.authorization.decision import Condition
from proxy.core.authorization.rules import (
    MAX_CONDITIONS,
    RULES_1_37,
    RULES_1_38,
    AlgebraRules,
    condition_bytes,
    condition_error,
    subdomain_errors,
)

NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an"
    " alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for"
    " validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.',"
    " and must start and end with an alphanumeric character (e.g. 'example.com', regex used for"
    r" validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
THREE_PARTS = (
    f"a valid label key {NAME_RULE} with an optional DNS subdomain prefix and '/'"
    " (e.g. 'example.com/MyName')"
)
NEEDS_PREFIX = 'must be a domain-prefixed key (such as "acme.io/foo")'


@pytest.mark.parametrize(
    "key",
    [
        pytest.param("acme.io/foo", id="4.1 prefix and name"),
        pytest.param("d" * 253 + "/" + "N" * 63, id="4.1 longest"),
        pytest.param("a.b-c/A_b.c-d", id="4.1 all characters"),
        pytest.param("k8s.io/foo", id="4.1 reserved domains are accepted"),
        pytest.param("authorization.kubernetes.io/foo", id="4.1 reserved domains below"),
    ],
)
@pytest.mark.parametrize("rules", [RULES_1_38, RULES_1_37])
def test_valid_ids(key: str, rules: AlgebraRules) -> None:
    assert condition_error(Condition(key, type=key), rules) == ""


@pytest.mark.parametrize(
    ("key", "details"),
    [
        pytest.param("foo", [NEEDS_PREFIX], id="4.1 prefix required"),
        pytest.param(
            "lucas-only-impersonate-node-get-pods", [NEEDS_PREFIX], id="4.1 the seed's example"
        ),
        pytest.param("a/b/c", [THREE_PARTS], id="4.1 three parts"),
        pytest.param("/a", ["prefix part must be non-empty"], id="4.1 empty prefix"),
        pytest.param("A.io/a", [f"prefix part {SUBDOMAIN_RULE}"], id="4.1 upper-case prefix"),
        pytest.param(
            "d" * 254 + "/a", ["prefix part must be no more than 253 bytes"], id="4.1 long prefix"
        ),
        pytest.param(
            "a.b/" + "n" * 64, ["name part must be no more than 63 bytes"], id="4.1 long name"
        ),
        pytest.param("a.b/-n", [f"name part {NAME_RULE}"], id="4.1 first character of the name"),
        pytest.param(
            "a.b/",
            ["name part must be non-empty", f"name part {NAME_RULE}"],
            id="4.1 empty name",
        ),
        pytest.param("a.b/n\n", [f"name part {NAME_RULE}"], id="4.1 no line end"),
    ],
)
def test_invalid_ids_of_1_38(key: str, details: list[str]) -> None:
    quoted = key.replace("\n", "\\n")
    texts = [f'{{field}}: Invalid value: "{quoted}": {detail}' for detail in details]
    joined = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"

    of_id = condition_error(Condition(key), RULES_1_38)
    of_type = condition_error(Condition("acme.io/foo", type=key), RULES_1_38)

    assert of_id == f"invalid condition: {joined.replace('{field}', 'id')}"
    assert of_type == f"invalid condition: {joined.replace('{field}', 'type')}"


def test_an_empty_id_is_required_and_an_empty_type_is_none() -> None:
    assert condition_error(Condition(""), RULES_1_38) == "invalid condition: id: Required value"
    assert condition_error(Condition("acme.io/foo", type=""), RULES_1_38) == ""


def test_3_9_ids_of_1_37_need_no_prefix() -> None:
    assert condition_error(Condition("foo", type="bar"), RULES_1_37) == ""
    assert condition_error(Condition("a/b/c"), RULES_1_37) == (
        f'invalid condition ID "a/b/c": {THREE_PARTS}'
    )
    assert condition_error(Condition(""), RULES_1_37) == (
        f'invalid condition ID "": name part must be non-empty; name part {NAME_RULE}'
    )
    assert condition_error(Condition("a", type="/b"), RULES_1_37) == (
        'invalid condition type "/b": prefix part must be non-empty'
    )


@pytest.mark.parametrize(
    ("condition", "error"),
    [
        (Condition("a.b/c", "x" * 10240), ""),
        (
            Condition("a.b/c", "x" * 10241),
            'condition "a.b/c" length 10241 is larger than the maximum allowed 10240 bytes',
        ),
        (
            Condition("a.b/c", "é" * 5121),
            'condition "a.b/c" length 10242 is larger than the maximum allowed 10240 bytes',
        ),
        (Condition("a.b/c", description="x" * 1024), ""),
        (
            Condition("a.b/c", description="x" * 1025),
            'condition "a.b/c" description length 1025 is larger than the maximum allowed 1024'
            " bytes",
        ),
    ],
)
def test_4_2_body_and_description_have_a_size_in_1_38_only(
    condition: Condition, error: str
) -> None:
    assert condition_error(condition, RULES_1_38) == error
    assert condition_error(condition, RULES_1_37) == ""


def test_3_1_the_checks_of_a_condition_have_an_order() -> None:
    wrong = Condition("foo", "x" * 10241, "bar", "x" * 1025)

    assert "id:" in condition_error(wrong, RULES_1_38)
    wrong = Condition("a.b/c", "x" * 10241, "bar", "x" * 1025)
    assert "length 10241" in condition_error(wrong, RULES_1_38)
    wrong = Condition("a.b/c", "", "bar", "x" * 1025)
    assert "type:" in condition_error(wrong, RULES_1_38)


def test_3_9_what_differs_between_1_37_and_1_38() -> None:
    assert (RULES_1_37.needs_prefix, RULES_1_38.needs_prefix) == (False, True)
    assert (RULES_1_37.max_body_bytes, RULES_1_38.max_body_bytes) == (None, 10240)
    assert (RULES_1_37.max_description_bytes, RULES_1_38.max_description_bytes) == (None, 1024)
    assert (RULES_1_37.has_dns_names, RULES_1_38.has_dns_names) == (False, True)
    assert RULES_1_37.name_word == "conditionalAuthorizerName"
    assert RULES_1_38.name_word == "authorizerName"


def test_the_limits_without_an_upstream_value_are_the_same_for_both() -> None:
    limits = [
        (rules.max_depth, rules.max_members, rules.max_bytes) for rules in (RULES_1_37, RULES_1_38)
    ]

    assert limits == [(8, 64, 262_144)] * 2
    assert MAX_CONDITIONS == 128


@pytest.mark.parametrize(
    ("name", "errors"),
    [
        ("webhook", []),
        ("system-privileged-group.authorizer.kubernetes.io", []),
        ("a" * 253, []),
        ("a" * 254, ["must be no more than 253 characters"]),
        ("kubernetes.io/system-privileged-group", [SUBDOMAIN_RULE]),
        ("", [SUBDOMAIN_RULE]),
        ("rbac\n", [SUBDOMAIN_RULE]),
    ],
)
def test_authorizer_names_are_dns_subdomains(name: str, errors: list[str]) -> None:
    assert subdomain_errors(name) == errors


def test_a_condition_counts_with_all_its_texts() -> None:
    assert condition_bytes(Condition("ab", "cd", "e", "é")) == 7
