import base64

from proxy.core.gocompat.quote import go_quote
from tests.core.vectors import QuoteVector, load


def test_quoting_is_go_s_for_every_kind_of_character() -> None:
    for vector in load("quotes", QuoteVector):
        text = base64.b64decode(vector["Bytes"]).decode("utf-8", "surrogateescape")

        assert go_quote(text) == vector["Quoted"]
