"""Parser: tokens to a syntax tree, with the limits of the Kubernetes parser.

It descends recursively, so nesting is limited before the tree is built. Chains of operators and of
selections are loops; their depth is counted as the native parser counts it.
"""

from proxy.core.cel.errors import CelCompileError
from proxy.core.cel.syntax.lexer import Token, tokenize
from proxy.core.cel.syntax.text_literals import bytes_value, string_value
from proxy.core.cel.syntax.tree import (
    Call,
    Expression,
    Ident,
    ListLiteral,
    Literal,
    MapEntry,
    MapLiteral,
    MessageLiteral,
    Select,
    children,
)
from proxy.core.cel.values.kinds import INT_MAX, INT_MIN, UINT_MAX, Uint

MAX_CODE_POINTS = 100_000
# The native parser takes 250. Each level costs frames in this parser, in the checker and in the
# evaluation, and all of them run below Python's limit of 1000 frames.
MAX_NESTING = 100
MAX_CHAIN = 250

_RESERVED = frozenset(
    ("as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in",
     "let", "loop", "package", "namespace", "null", "return", "true", "var", "void", "while")
)  # fmt: skip
_MOST_DIGITS = 400
_RELATIONS = {
    "<": "_<_",
    "<=": "_<=_",
    ">": "_>_",
    ">=": "_>=_",
    "==": "_==_",
    "!=": "_!=_",
    "in": "@in",
}
_CALCULATIONS = ({"+": "_+_", "-": "_-_"}, {"*": "_*_", "/": "_/_", "%": "_%_"})
# From the weakest to the strongest.
_LEVELS = ({"||": "_||_"}, {"&&": "_&&_"}, _RELATIONS, *_CALCULATIONS)
_BINARY = {text: function for level in _LEVELS for text, function in level.items()}
# What the native parser counts on its way down, besides selections and member calls.
_COUNTED = frozenset(("_?_:_", "_[_]", "_[?_]", "_?._", *_BINARY.values())) - {"_||_", "_&&_"}
_KEYWORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}


def parse(text: str) -> Expression:
    """Return the tree of an expression, macros as calls; raises CelCompileError."""
    if len(text) > MAX_CODE_POINTS:
        raise CelCompileError(
            f"expression code point size exceeds limit: size: {len(text)}, limit {MAX_CODE_POINTS}"
        )
    tree = _Parser(tokenize(text)).parse()
    _limit_depth(tree)
    return tree


class _Parser:
    """One pass over the tokens."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._position = 0
        self._nesting = 0

    def parse(self) -> Expression:
        tree = self._expression()
        if self._next.kind != "end":
            raise self._unexpected()
        return tree

    @property
    def _next(self) -> Token:
        return self._tokens[self._position]

    def _take(self) -> Token:
        token = self._tokens[self._position]
        self._position += 1
        return token

    def _at(self, text: str) -> bool:
        token = self._tokens[self._position]
        return token.kind == "operator" and token.text == text

    def _accept(self, text: str) -> bool:
        if not self._at(text):
            return False
        self._position += 1
        return True

    def _expect(self, text: str) -> Token:
        if not self._at(text):
            raise self._unexpected(f", expecting '{text}'")
        return self._take()

    def _unexpected(self, wanted: str = "") -> CelCompileError:
        return CelCompileError(
            f"Syntax error: mismatched input '{self._next.text}'{wanted}", self._next.offset
        )

    def _expression(self) -> Expression:
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            raise CelCompileError(f"expression recursion limit exceeded: {MAX_NESTING}")
        tree = self._operations()
        if self._at("?"):
            offset = self._take().offset
            chosen = self._operations()
            self._expect(":")
            tree = Call("_?_:_", (tree, chosen, self._expression()), offset=offset)
        self._nesting -= 1
        return tree

    def _operations(self) -> Expression:
        # Operands and operators are read flat and grouped afterwards, so a level of nesting costs
        # few frames however many levels of precedence there are.
        operands = [self._unary()]
        operators: list[Token] = []
        while self._next.kind == "operator" and self._next.text in _BINARY:
            operators.append(self._take())
            operands.append(self._unary())
        return _group(operands, operators, 0)

    def _unary(self) -> Expression:
        if self._next.kind != "operator" or self._next.text not in ("!", "-"):
            return self._member(self._primary())
        first = self._next
        count = 0
        while self._at(first.text):
            if first.text == "-" and count == 0 and self._number_follows():
                return self._member(self._signed_number())
            self._position += 1
            count += 1
        operand = self._member(self._signed_number() if self._at("-") else self._primary())
        if count % 2 == 0:
            return operand
        return Call(f"{first.text}_", (operand,), offset=first.offset)

    def _number_follows(self) -> bool:
        return self._tokens[self._position + 1].kind in ("int", "float")

    def _signed_number(self) -> Expression:
        sign = self._expect("-")
        if self._next.kind not in ("int", "float"):
            raise self._unexpected()
        return _number(self._take(), sign.offset, sign="-")

    def _member(self, operand: Expression) -> Expression:
        while self._next.kind == "operator" and self._next.text in (".", "[", "{"):
            if self._at("."):
                operand = self._selection(operand)
            elif self._at("["):
                operand = self._index(operand)
            else:
                operand = self._message(operand)
        return operand

    def _selection(self, operand: Expression) -> Expression:
        offset = self._take().offset
        optional = self._accept("?")
        name = self._take()
        if name.kind not in ("ident", "escaped"):
            self._position -= 1
            raise self._unexpected(" expecting IDENTIFIER")
        if name.kind == "ident" and not optional and self._at("("):
            at = self._next.offset
            return Call(name.text, self._arguments(), operand, offset=at)
        text = name.text.strip("`")
        if optional:
            return Call("_?._", (operand, Literal(text, name.offset)), offset=offset)
        return Select(operand, text, offset=offset)

    def _index(self, operand: Expression) -> Expression:
        offset = self._take().offset
        function = "_[?_]" if self._accept("?") else "_[_]"
        index = self._expression()
        self._expect("]")
        return Call(function, (operand, index), offset=offset)

    def _message(self, name: Expression) -> Expression:
        type_name = qualified_name(name)
        if type_name is None:
            raise self._unexpected()
        offset = self._take().offset
        fields: list[tuple[str, Expression, bool]] = []
        while not self._at("}"):
            if fields or self._at(","):
                self._expect(",")
                if self._at("}"):
                    break
            optional = self._accept("?")
            field = self._take()
            if field.kind not in ("ident", "escaped"):
                raise CelCompileError("Syntax error: expecting a field name", field.offset)
            self._expect(":")
            fields.append((field.text.strip("`"), self._expression(), optional))
        self._take()
        return MessageLiteral(type_name, tuple(fields), offset)

    def _arguments(self) -> tuple[Expression, ...]:
        self._expect("(")
        if self._accept(")"):
            return ()
        arguments = [self._expression()]
        while self._accept(","):
            arguments.append(self._expression())
        self._expect(")")
        return tuple(arguments)

    def _primary(self) -> Expression:
        token = self._take()
        match token.kind:
            case "int" | "float" | "uint":
                return _number(token, token.offset)
            case "string":
                return Literal(string_value(token.text, token.offset), token.offset)
            case "bytes":
                return Literal(bytes_value(token.text, token.offset), token.offset)
            case "keyword":
                return Literal(_KEYWORDS[token.text], token.offset)
            case "ident":
                return self._name(token, "")
            case _:
                return self._bracketed(token)

    def _bracketed(self, token: Token) -> Expression:
        if token.kind == "operator":
            match token.text:
                case "(":
                    tree = self._expression()
                    self._expect(")")
                    return tree
                case "[":
                    return self._list(token.offset)
                case "{":
                    return self._map(token.offset)
                case "." if self._next.kind == "ident":
                    return self._name(self._take(), ".")
        self._position -= 1
        raise self._unexpected()

    def _name(self, token: Token, dot: str) -> Expression:
        is_message = self._at("{") or self._at(".")
        if token.text in _RESERVED and not is_message:
            raise CelCompileError(f"reserved identifier: {token.text}", token.offset)
        if self._at("("):
            offset = self._next.offset
            return Call(dot + token.text, self._arguments(), offset=offset)
        if token.text in _RESERVED:
            raise CelCompileError(f"reserved identifier: {token.text}", token.offset)
        return Ident(dot + token.text, token.offset)

    def _list(self, offset: int) -> Expression:
        elements: list[Expression] = []
        optional: set[int] = set()
        while not self._at("]"):
            if elements or self._at(","):
                self._expect(",")
                if self._at("]"):
                    break
            if self._accept("?"):
                optional.add(len(elements))
            elements.append(self._expression())
        self._take()
        return ListLiteral(tuple(elements), frozenset(optional), offset)

    def _map(self, offset: int) -> Expression:
        entries: list[MapEntry] = []
        while not self._at("}"):
            if entries or self._at(","):
                self._expect(",")
                if self._at("}"):
                    break
            optional = self._accept("?")
            key = self._expression()
            self._expect(":")
            entries.append(MapEntry(key, self._expression(), optional))
        self._take()
        return MapLiteral(tuple(entries), offset)


def qualified_name(tree: Expression) -> str | None:
    """Return `a.b.c` for a chain of plain selections from a name, otherwise None."""
    parts: list[str] = []
    while isinstance(tree, Select):
        if tree.test_only:
            return None
        parts.append(tree.field_name)
        tree = tree.operand
    if not isinstance(tree, Ident):
        return None
    return ".".join((tree.name, *reversed(parts)))


def _group(operands: list[Expression], operators: list[Token], level: int) -> Expression:
    """Return the tree of a flat row of operands, grouped from this level of precedence on."""
    if not operators:
        return operands[0]
    here = [index for index, token in enumerate(operators) if token.text in _LEVELS[level]]
    starts = [0, *(index + 1 for index in here)]
    ends = [*(index + 1 for index in here), len(operands)]
    terms = [
        _group(operands[start:end], operators[start : end - 1], level + 1)
        for start, end in zip(starts, ends, strict=True)
    ]
    if not here:
        return terms[0]
    tokens = [operators[index] for index in here]
    if tokens[0].text in ("||", "&&"):
        return Call(_BINARY[tokens[0].text], tuple(terms), offset=tokens[0].offset)
    tree = terms[0]
    for token, term in zip(tokens, terms[1:], strict=True):
        tree = Call(_BINARY[token.text], (tree, term), offset=token.offset)
    return tree


def _limit_depth(tree: Expression) -> None:
    """Refuse a tree with a longer chain of operators, selections and member calls."""
    todo: list[tuple[Expression, int]] = [(tree, 0)]
    while todo:
        node, depth = todo.pop()
        if isinstance(node, Select) or (isinstance(node, Call) and _counts(node)):
            depth += 1
            if depth > MAX_CHAIN:
                raise CelCompileError("max recursion depth exceeded", node.offset)
        todo.extend([(child, depth) for child in children(node)])


def _counts(call: Call) -> bool:
    return call.target is not None or call.function in _COUNTED


def _number(token: Token, offset: int, sign: str = "") -> Literal:
    if token.kind == "float":
        number = float(sign + token.text)
        if number in (float("inf"), float("-inf")):
            raise CelCompileError("invalid double literal", offset)
        return Literal(number, offset)
    digits = token.text.rstrip("uU")
    value = (
        int(sign + digits, 16 if digits.startswith("0x") else 10)
        if len(digits) < _MOST_DIGITS
        else None
    )
    if token.kind == "uint":
        if value is None or value > UINT_MAX:
            raise CelCompileError("invalid uint literal", offset)
        return Literal(Uint(value), offset)
    if value is None or not INT_MIN <= value <= INT_MAX:
        raise CelCompileError("invalid int literal", offset)
    return Literal(value, offset)
