import pytest

from proxy.core.cel.errors import CelCompileError
from proxy.core.cel.syntax.lexer import tokenize


def test_tokens_have_kind_text_and_offset() -> None:
    tokens = tokenize("a.`b-c` in 1u // no\n+ .5 r'\\' b\"x\"")

    assert [(token.kind, token.text) for token in tokens] == [
        ("ident", "a"),
        ("operator", "."),
        ("escaped", "`b-c`"),
        ("operator", "in"),
        ("uint", "1u"),
        ("operator", "+"),
        ("float", ".5"),
        ("string", "r'\\'"),
        ("bytes", 'b"x"'),
        ("end", "<EOF>"),
    ]
    assert tokens[2].offset == 2


@pytest.mark.parametrize("text", ["é", "'a", '"\n"', "#", "`a$`", "'\\q'"])
def test_what_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(CelCompileError, match="token recognition error"):
        tokenize(text)
