"""Reading what a person has written: every problem is kept, with the place where it is."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

_Thing = TypeVar("_Thing")


class DocumentReader:
    """Takes a parsed document apart. Places are told as paths: `$.targets[0].user`."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def error(self, path: str, problem: str) -> None:
        """Keep a problem."""
        self.problems.append(f"{path}: {problem}")

    def mapping(self, value: object, path: str, keys: Sequence[str]) -> Mapping[str, object] | None:
        """Return a mapping that has these keys and no others."""
        if not isinstance(value, Mapping):
            self.error(path, f"must be a mapping of {', '.join(keys)}")
            return None
        for key in value:
            if key not in keys:
                self.error(f"{path}.{key}", f"is not known here; known are {', '.join(keys)}")
        return value

    def each(
        self, value: object, path: str, read: Callable[[object, str], _Thing | None]
    ) -> Iterator[_Thing]:
        """Give what is read from each entry of a list that must not be empty."""
        if not isinstance(value, Sequence) or isinstance(value, str) or not value:
            self.error(path, "must be a list that is not empty")
            return
        for position, entry in enumerate(value):
            thing = read(entry, f"{path}[{position}]")
            if thing is not None:
                yield thing

    def text(self, value: object, path: str) -> str:
        """Return a text that is not empty."""
        if isinstance(value, str) and value:
            return value
        self.error(path, "must be a text that is not empty; quote what looks like a number")
        return ""

    def texts(self, value: object, path: str) -> list[str]:
        """Return the texts of a list, which may be empty."""
        if not isinstance(value, Sequence) or isinstance(value, str):
            self.error(path, "must be a list of texts")
            return []
        return [self.text(item, f"{path}[{position}]") for position, item in enumerate(value)]

    def some_texts(self, value: object, path: str) -> list[str]:
        """Return the texts of a list that must not be empty."""
        found = self.texts(value, path)
        if not found and isinstance(value, Sequence) and not isinstance(value, str):
            self.error(path, "must not be empty")
        return found

    def flag(self, given: Mapping[str, object], key: str, *, default: bool) -> bool:
        """Return true or false."""
        value = given.get(key, default)
        if isinstance(value, bool):
            return value
        self.error(f"$.{key}", "must be true or false")
        return default
