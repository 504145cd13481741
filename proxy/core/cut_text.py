"""Text of a request as a message repeats it: in full unless it is longer than anybody reads."""

LONGEST_SHOWN = 1024
MARKER = "...TRUNCATED"
"""How a cut text ends; kube-apiserver ends a long user agent in this way."""


def cut_text(text: str, *, longest: int = LONGEST_SHOWN) -> str:
    """Return a text of at most so many characters, and a mark where the rest was.

    Whoever quotes or escapes a text cuts it first, so that the cost of a refusal does not grow with
    what the client sent.
    """
    return text if len(text) <= longest else text[:longest] + MARKER
