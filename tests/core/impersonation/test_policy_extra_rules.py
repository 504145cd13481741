import pytest

from proxy.core.impersonation.policy import validate_extra
from proxy.core.userinfo import Extra, make_extra
from tests.core.vectors import KeyVector, load


@pytest.mark.parametrize("vector", load("extra_keys", KeyVector), ids=lambda v: v["Key"])
def test_an_invalid_extra_key_is_refused_in_the_api_server_s_words(vector: KeyVector) -> None:
    fault = validate_extra(((vector["Key"], ("value",)),))

    if vector["Fault"]:
        assert fault == f"impersonating an invalid key in extra is not allowed: {vector['Fault']}"
    elif vector["Key"] != vector["Key"].lower():
        quoted = f'"{vector["Key"]}"'
        assert fault == f"impersonating a non-lowercase key in extra is not allowed: {quoted}"
    else:
        assert fault is None


@pytest.mark.parametrize(
    ("extra", "fault"),
    [
        ((), None),
        (make_extra({"a.io/b": ["c", "d"]}), None),
        (make_extra({"": ["c"]}), "impersonating the empty string key in extra is not allowed"),
        (make_extra({"a.io/b": []}), "impersonating empty values in extra is not allowed"),
        (
            make_extra({"a.io/b": ["c", ""]}),
            "impersonating the empty string value in extra is not allowed",
        ),
        (
            make_extra({"a.io/b": ["c"], "a.io/c": [""]}),
            "impersonating the empty string value in extra is not allowed",
        ),
    ],
)
def test_empty_keys_and_values_are_refused(extra: Extra, fault: str | None) -> None:
    assert validate_extra(extra) == fault
