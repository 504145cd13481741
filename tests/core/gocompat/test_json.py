"""JSON: the text that Go's encoding/json writes for the same document."""

import json

import pytest

from proxy.core.gocompat.json import go_json

DOCUMENT = {"kind": "Status", "metadata": {}, "causes": [], "items": [1, True, None]}

# Go escapes the characters of HTML and the two line separators, and writes other text as it is.
TEXTS = [
    pytest.param("plain", '"plain"', id="plain"),
    pytest.param('quote " and \\', r'"quote \" and \\"', id="quotes"),
    pytest.param("\n\r\t\x01", r'"\n\r\t\u0001"', id="control characters"),
    pytest.param("<a>&</a>", r'"\u003ca\u003e\u0026\u003c/a\u003e"', id="HTML"),
    pytest.param("a\u2028b\u2029", r'"a\u2028b\u2029"', id="line separators"),
    pytest.param("caf\u00e9 \U0001f600", '"caf\u00e9 \U0001f600"', id="not ASCII"),
    pytest.param("\x7f", '"\x7f"', id="DEL"),
    pytest.param("a\udcff\udcfeb", r'"a\ufffd\ufffdb"', id="bytes that are not UTF-8"),
    pytest.param("<\ud800>", r'"\u003c\ufffd\u003e"', id="lone surrogate next to HTML"),
]


@pytest.mark.parametrize(("text", "expected"), TEXTS)
@pytest.mark.parametrize("pretty", [False, True])
def test_json_escapes_text_as_go_does(text: str, expected: str, *, pretty: bool) -> None:
    assert go_json(text, pretty=pretty) == expected


def test_json_escapes_keys_as_well_as_values() -> None:
    assert go_json({"<": ">"}) == r'{"\u003c":"\u003e"}'


def test_compact_json_is_one_line_without_spaces() -> None:
    assert go_json(DOCUMENT) == (
        '{"kind":"Status","metadata":{},"causes":[],"items":[1,true,null]}'
    )


def test_pretty_json_is_indented_by_two_spaces() -> None:
    expected = (
        "{",
        '  "kind": "Status",',
        '  "metadata": {},',
        '  "causes": [],',
        '  "items": [',
        "    1,",
        "    true,",
        "    null",
        "  ]",
        "}",
    )

    assert go_json(DOCUMENT, pretty=True) == "\n".join(expected)


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN"])
def test_compact_json_of_a_number_that_json_cannot_express_is_an_error(number: str) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        go_json({"n": json.loads(number)})

    assert go_json({"n": json.loads("-15")}) == '{"n":-15}'
