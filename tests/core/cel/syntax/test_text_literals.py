import pytest

from proxy.core.cel.errors import CelCompileError
from proxy.core.cel.syntax.text_literals import bytes_value, string_value


@pytest.mark.parametrize(
    ("token", "wanted"),
    [
        ("'a'", "a"),
        (r"'\n\t\\\''", "\n\t\\'"),
        (r"'\x41\101é\U0001F600'", "AAé\U0001f600"),
        (r"r'\n'", "\\n"),
        ("'''a\r\nb'''", "a\nb"),
        ('""', ""),
    ],
)
def test_escapes_of_a_text(token: str, wanted: str) -> None:
    assert string_value(token, 0) == wanted


def test_escapes_of_bytes_are_bytes() -> None:
    assert bytes_value(r"b'\xff\377é\a'", 0) == b"\xff\xff\xc3\xa9\x07"
    assert bytes_value("b'plain'", 0) == b"plain"


@pytest.mark.parametrize("token", [r"'\ud800'", r"'\U00110000'"])
def test_a_code_point_that_does_not_exist_is_refused(token: str) -> None:
    with pytest.raises(CelCompileError, match="invalid unicode code point"):
        string_value(token, 0)


def test_bytes_have_no_unicode_escapes() -> None:
    with pytest.raises(CelCompileError, match="unable to unescape"):
        bytes_value("b'" + chr(92) + "u0041'", 0)
