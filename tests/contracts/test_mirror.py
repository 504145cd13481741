"""`proxy/a/b.py` is tested by `tests/a/test_b.py`, and public class names are unique."""

import ast
from collections import defaultdict
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "proxy"
EXCEPTIONS = Path(__file__).with_name("modules_without_mirror.yaml")
MOST_MODULES = 12
# One file per command.
ANY_NUMBER = {"cli"}
# Mirror tests that drive their module through the class that creates it.
TESTED_THROUGH = {"cli/serve.py", "serving/client_transport.py"}


def modules() -> list[Path]:
    """Return every module below the package, without `__init__` and `__main__`."""
    return sorted(
        file.relative_to(PACKAGE)
        for file in PACKAGE.rglob("*.py")
        if file.name not in {"__init__.py", "__main__.py"}
    )


def mirror_of(module: Path) -> Path:
    """Return the test file of a module."""
    return ROOT / "tests" / module.with_name(f"test_{module.name}")


def is_about_its_module(module: Path) -> bool:
    """Return whether the mirror test names its module, or runs its command, and asserts."""
    name = ".".join(("proxy", *module.with_suffix("").parts))
    tree = ast.parse(mirror_of(module).read_text())
    nodes = list(ast.walk(tree))
    imported = {
        full
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        for full in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
    }
    texts = [
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    runs_it = module.parent == Path("cli") and module.stem.replace("_", "-") in texts
    names_it = name in imported or any(name in text for text in texts)
    return (names_it or runs_it) and any(isinstance(node, ast.Assert) for node in nodes)


def test_every_module_has_a_mirror_test_or_a_listed_reason() -> None:
    reasons: dict[str, str] = yaml.safe_load(EXCEPTIONS.read_text())
    missing = {str(module) for module in modules() if not mirror_of(module).is_file()}

    assert missing - set(reasons) == set(), "write the mirror test"
    assert set(reasons) - missing == set(), "has a mirror test by now: remove it from the list"
    assert all(reasons.values())


def test_every_mirror_test_is_about_its_module() -> None:
    mirrored = [module for module in modules() if mirror_of(module).is_file()]

    assert mirrored
    others = {str(module) for module in mirrored if not is_about_its_module(module)}
    assert others == TESTED_THROUGH


def test_a_package_has_at_most_twelve_modules() -> None:
    counts: defaultdict[Path, int] = defaultdict(int)
    for module in modules():
        counts[module.parent] += 1

    too_many = {str(package): count for package, count in counts.items() if count > MOST_MODULES}
    assert too_many.keys() - ANY_NUMBER == set()


def test_public_class_names_are_unique() -> None:
    defined: defaultdict[str, list[str]] = defaultdict(list)
    for module in modules():
        for node in ast.walk(ast.parse((PACKAGE / module).read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                defined[node.name].append(str(module))

    assert {name: files for name, files in defined.items() if len(files) > 1} == {}
