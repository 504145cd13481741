"""Field and label selectors, good, bad and nearly good, with every operator."""

from random import Random

_FIELD_NAMES = ("metadata.name", "metadata.name", "spec.nodeName", "status.phase", "", "a b", " x")
_FIELD_VALUES = (
    *(
        "x",
        "node1",
        "Running",
        "",
        ".",
        "..",
        "a/b",
        "a%b",
        "é",
        "a\\,b",
        "a\\=b",
        "a\\\\b",
        "a\\b",
    ),
    *("\\", "a b", " x ", "*", "<x>", '"', "x:80", "metadata.name"),
)
_FIELD_OPERATORS = ("=", "=", "==", "!=", "", "===", "!", " = ", "!==", "=!")


def make_field_selector(random: Random) -> str:
    """Return terms as `fields.ParseSelector` reads them, or nearly so."""
    if random.random() < 0.05:
        return "".join(random.choices("ab=!,\\ .", k=random.randrange(9)))
    terms = []
    for _ in range(random.choice((1, 1, 1, 2, 2, 3, 0))):
        operator = random.choice(_FIELD_OPERATORS[: 4 if random.random() < 0.8 else None])
        name = random.choice(_FIELD_NAMES[: 4 if random.random() < 0.85 else None])
        value = random.choice(_FIELD_VALUES[: 3 if random.random() < 0.6 else None])
        terms.append(name + operator + value)
    return random.choice((",", ",", ",", ", ", ",,", ",")).join(terms)


_LABEL_KEYS = (
    *("app", "tier", "a.b/c", "in", "notin", "kubernetes.io/os", "x", "A_1"),
    *("-bad", "a//b", "", "é", "a" * 64, "UP.per/x", "a.b/", "/x", "a b", "1", "gt", "exists"),
)
_LABEL_VALUES = (
    "web",
    "b",
    "in",
    "1",
    "A-1_b.c",
    "",
    "-x",
    "é",
    "a" * 64,
    "x y",
    "(",
    "9999999999",
)
_LABEL_OPERATORS = ("=", "==", "!=", " in ", " notin ", ">", "<", "in", "=!", "!", " ", "=>", "!in")


def make_label_selector(random: Random) -> str:
    """Return requirements as `labels.Parse` reads them, or nearly so."""
    if random.random() < 0.05:
        words = (
            "a",
            "b",
            "in",
            "notin",
            "=",
            "!",
            ",",
            "(",
            ")",
            "<",
            ">",
            " ",
            "\t",
            "\0",
            "1",
            "/",
        )
        return "".join(random.choices(words, k=random.randrange(9)))
    requirements = [
        _make_label_requirement(random) for _ in range(random.choice((1, 1, 1, 2, 2, 3, 0)))
    ]
    return random.choice((",", ",", ",", ", ", " , ", ",,", " ")).join(requirements)


def _make_label_requirement(random: Random) -> str:
    key = random.choice(_LABEL_KEYS[: 8 if random.random() < 0.88 else None])
    blank = random.choice(("", "", "", " ", "\t", "\n"))
    kind = random.random()
    if kind < 0.2:
        return blank + random.choice(("", "!", "! ", "!!")) + key + blank
    operator = random.choice(_LABEL_OPERATORS[: 7 if random.random() < 0.9 else None])
    if "in" in operator and random.random() < 0.9:
        values = [_label_value(random) for _ in range(random.choice((1, 2, 2, 3, 0)))]
        opening, closing = random.choice((("(", ")"),) * 12 + (("(", ""), ("", ")"), ("((", ")")))
        listed = random.choice((",", ", ", " ,", ",,")).join(values)
        return f"{key}{operator}{blank}{opening}{listed}{blank}{closing}"
    return f"{blank}{key}{blank}{operator}{blank}{_label_value(random)}"


def _label_value(random: Random) -> str:
    return random.choice(_LABEL_VALUES[: 5 if random.random() < 0.88 else None])
