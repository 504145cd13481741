"""Reader of hand-written documents. It collects every problem with its path."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

_Parsed = TypeVar("_Parsed")


class DocumentReader:
    """Reads the parts of a parsed document. Problems have paths such as `$.targets[0].user`."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def error(self, path: str, problem: str) -> None:
        """Record a problem."""
        self.problems.append(f"{path}: {problem}")

    def mapping(self, value: object, path: str, keys: Sequence[str]) -> Mapping[str, object] | None:
        """Return a mapping, and record a problem for each unknown key."""
        if not isinstance(value, Mapping):
            self.error(path, f"must be a mapping of {', '.join(keys)}")
            return None
        for key in value:
            if key not in keys:
                self.error(f"{path}.{key}", f"is unknown; known keys are {', '.join(keys)}")
        return value

    def each(
        self, value: object, path: str, read: Callable[[object, str], _Parsed | None]
    ) -> Iterator[_Parsed]:
        """Yield the parsed entries of a list that must not be empty."""
        if not isinstance(value, Sequence) or isinstance(value, str) or not value:
            self.error(path, "must be a list that is not empty")
            return
        for position, entry in enumerate(value):
            parsed = read(entry, f"{path}[{position}]")
            if parsed is not None:
                yield parsed

    def text(self, value: object, path: str) -> str:
        """Return a string that must not be empty."""
        if isinstance(value, str) and value:
            return value
        self.error(path, "must be a string that is not empty; quote values that look like numbers")
        return ""

    def texts(self, value: object, path: str) -> list[str]:
        """Return the strings of a list, which may be empty."""
        if not isinstance(value, Sequence) or isinstance(value, str):
            self.error(path, "must be a list of strings")
            return []
        return [self.text(item, f"{path}[{position}]") for position, item in enumerate(value)]

    def some_texts(self, value: object, path: str) -> list[str]:
        """Return the strings of a list that must not be empty."""
        found = self.texts(value, path)
        if not found and isinstance(value, Sequence) and not isinstance(value, str):
            self.error(path, "must not be empty")
        return found

    def flag(self, given: Mapping[str, object], key: str, *, default: bool) -> bool:
        """Return the boolean at a key, or the default."""
        value = given.get(key, default)
        if isinstance(value, bool):
            return value
        self.error(f"$.{key}", "must be true or false")
        return default
