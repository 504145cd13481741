"""`docs/troubleshooting-denials.md` has every message that a client can be told, and no other.

Messages are read from the source: what is given to the constructor of a refusal. Where that is no
literal, `INDIRECT` says which texts it can be; a new place of that kind fails until it is there.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from proxy.core import errors
from proxy.core.authorization.access_check import AccessCheck
from proxy.core.gocompat.url import _target_fault
from proxy.core.impersonation import evaluation
from proxy.core.impersonation.evaluation import forbidden_message
from proxy.core.userinfo import UserInfo
from proxy.runtime import builders
from tests.support.doc_references import ROOT

PAGES = ("troubleshooting-denials.md", "error-messages.md", "malformed-requests.md")
DOCUMENT = "".join((ROOT / "docs" / page).read_text() for page in PAGES)
SANDBOX = ROOT / "proxy" / "sandbox"
GAP = "…"
# Told to clients elsewhere in the document, as examples that the last tests here make anew.
IN_THE_SERVERS_WORDS = "in the API server's words"
INDIRECT = {
    "denied.reason": [evaluation.LEGACY_DISABLED],
    "forbidden_message(check, denied.reason)": [IN_THE_SERVERS_WORDS],
    "_target_fault(target)": [_target_fault(target) for target in (b"*", b"/#", b"/ ")],
    "_without_user(reading) if constrained else _without_user_former(reading)": [
        f"requested {GAP} without impersonating a user name",
        f"requested [{GAP}] without impersonating a user",
    ],
    "self._rejection": [
        builders._TOO_MANY_TOKENS,
        builders._TOO_MANY_LOOKUPS,
        builders._TOO_MANY_REVIEWS,
    ],
    # A refusal of ours that is passed on.
    "error.message": [],
}
ROW = re.compile(r"^\|(?: (\d{3}) \|)? `([^`]+)` \|", re.MULTILINE)
REFUSED_REASON = re.compile(r"^\| `(impersonating [^`]+)` \|", re.MULTILINE)


@cache
def modules() -> dict[Path, ast.Module]:
    """Return every module that may refuse a request."""
    paths = (path for path in (ROOT / "proxy").rglob("*.py") if not path.is_relative_to(SANDBOX))
    return {path: ast.parse(path.read_text()) for path in paths}


def refusal_codes() -> dict[str, int]:
    """Return the code of each refusal class, those outside of `core/errors.py` included."""
    codes: dict[str, int] = {}
    for name, value in vars(errors).items():
        if isinstance(value, type) and issubclass(value, errors.StatusError):
            codes[name] = value.code
    for tree in modules().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.name not in codes:
                bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
                for base in codes.keys() & set(bases):
                    codes = codes | {node.name: _own_code(node) or codes[base]}
    return codes


def _own_code(node: ast.ClassDef) -> int | None:
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and ast.unparse(statement.target) == "code":
            return int(ast.unparse(statement.value or ast.Constant(0)))
    return None


def template(node: ast.expr) -> str | None:
    """Return a literal text, with gaps for what is filled in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else GAP for part in node.values)
        return "".join(map(str, parts))
    return None


def told() -> Iterator[tuple[int, str]]:
    """Yield code and message of every refusal in the source."""
    codes = refusal_codes()
    for tree in modules().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and node.args and ast.unparse(node.func) in codes:
                code = codes[ast.unparse(node.func)]
                yield from ((code, message) for message in _messages(node.args[0], tree))
            if isinstance(node, ast.ClassDef) and node.name in codes:
                yield from ((codes[node.name], text) for text in _fixed_messages(node))


def _messages(argument: ast.expr, module: ast.Module) -> list[str]:
    """Return what an argument can be: a text, a constant of the module, or one of two."""
    text = template(argument)
    if text is not None:
        return [text]
    if ast.unparse(argument) in INDIRECT:
        return INDIRECT[ast.unparse(argument)]
    if isinstance(argument, ast.IfExp):
        return [*_messages(argument.body, module), *_messages(argument.orelse, module)]
    for statement in module.body:
        if isinstance(statement, ast.Assign) and ast.unparse(argument) in map(
            ast.unparse, statement.targets
        ):
            return _messages(statement.value, module)
    raise AssertionError(f"nobody knows what {ast.unparse(argument)} is")


def _fixed_messages(node: ast.ClassDef) -> Iterator[str]:
    """Yield what a class always says: the text it gives to its base's constructor."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "super().__init__":
            text = template(call.args[0]) if call.args else None
            if text is not None:
                yield text


def section(*beginnings: str) -> str:
    """Return the parts of the document whose headings begin so."""
    parts = re.split(r"^## ", DOCUMENT, flags=re.MULTILINE)
    return "".join(part for part in parts if part.startswith(beginnings))


def place_of(code: int) -> str:
    """Return the part of the document that a code belongs to; a few rare ones are with 400."""
    if code >= 500:
        return section("5xx")
    return section(str(code)) or section("400")


def test_every_message_is_explained_where_its_code_is() -> None:
    messages = {(code, message) for code, message in told() if message != IN_THE_SERVERS_WORDS}

    missing = {
        (code, message) for code, message in messages if f"`{message}`" not in place_of(code)
    }

    assert len(messages) > 50
    assert missing == set()


def test_a_code_that_is_named_beside_a_message_is_its_own() -> None:
    named = [(int(code), message) for code, message in ROW.findall(DOCUMENT) if code]

    assert named
    assert set(named) - set(told()) == set()


def test_no_message_is_explained_that_nobody_is_told() -> None:
    tables = section("400", "403: a rule", "429", "5xx")

    explained = {message for _, message in ROW.findall(tables)}

    assert explained - {message for _, message in told()} == set()


def test_every_refusal_without_a_question_is_explained() -> None:
    """Reasons that end a denial whatever anybody was granted."""
    source = "".join(
        (ROOT / "proxy" / "core" / "impersonation" / name).read_text()
        for name in ("checks.py", "policy.py")
    )
    reasons = {
        re.sub(r"\{[^}]*\}", GAP, text)
        for text in re.findall(r'"(impersonating [^"]* is not allowed[^"]*)"', source)
    }

    assert len(reasons) > 5
    assert reasons == set(REFUSED_REASON.findall(section("403: the impersonation")))


DEPUTY, ALICE = UserInfo("deputy"), UserInfo("alice")
LIST, IDENTITIES = "impersonate-on:user-info:list", "authentication.k8s.io"
EXAMPLES = {
    "action": AccessCheck(DEPUTY, LIST, resource="pods", namespace="default"),
    "action, everywhere": AccessCheck(DEPUTY, LIST, resource="pods"),
    "directory": AccessCheck(
        DEPUTY, "impersonate-on:user-info:get", is_resource=False, path="/api"
    ),
    "exec": AccessCheck(
        DEPUTY,
        "impersonate-on:user-info:create",
        resource="pods",
        subresource="exec",
        name="web",
        namespace="default",
    ),
    "identity": AccessCheck(
        DEPUTY, "impersonate:user-info", group=IDENTITIES, resource="users", name="alice"
    ),
    "legacy": AccessCheck(DEPUTY, "impersonate", resource="users", name="alice"),
    "target": AccessCheck(ALICE, "list", resource="pods", namespace="default"),
}


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_every_example_is_what_a_client_is_told(example: AccessCheck) -> None:
    assert f"```\n{forbidden_message(example, '')}\n```" in DOCUMENT
