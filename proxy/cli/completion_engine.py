"""What could come next on a command line, read from the parsers that will read it.

argparse tells its parsers' options only by attributes that are private; they have kept their names
since it exists, and a test completes every command.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
# What has no choices of its own, because others are possible as well.
_USUAL = {"verb": _VERBS}
_SEVERAL = frozenset({argparse.ONE_OR_MORE, argparse.ZERO_OR_MORE, argparse.REMAINDER})


@dataclass(frozen=True, slots=True)
class Candidate:
    """A word that could come, and what it does."""

    text: str
    help: str = ""


@dataclass(slots=True)
class Completion:
    """The words that could come, and whether a file could."""

    candidates: list[Candidate] = field(default_factory=list)
    completes_files: bool = False


def complete(parser: argparse.ArgumentParser, words: Sequence[str]) -> Completion:
    """Return what the last of the words could become; it may be empty."""
    *before, current = words or [""]
    reading = _Reading(parser)
    for word in before:
        reading.take(word)
    return reading.complete(current)


class _Reading:
    """Goes along a command line as argparse would, forgiving what is wrong."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._parser = parser
        self._awaited: argparse.Action | None = None
        """The option whose value comes next."""
        self._position = 0
        self._has_options = True

    def take(self, word: str) -> None:
        """Go on by one whole word."""
        if self._awaited is not None:
            # Shells that part words at equals signs show them on their own.
            self._awaited = self._awaited if word == "=" else None
        elif word == "--":
            self._has_options = False
        elif self._has_options and word.startswith("-") and word != "-":
            option = self._option(word)
            if option is not None and option.nargs != 0 and "=" not in word:
                self._awaited = option
        else:
            self._take_position(word)

    def complete(self, current: str) -> Completion:
        """Return what a word could become."""
        if self._awaited is not None:
            return _values(self._awaited, "" if current == "=" else current)
        if self._has_options and current.startswith("-") and current != "-":
            name, equals, value = current.partition("=")
            option = self._option(name)
            if equals and option is not None:
                return _values(option, value, before=f"{name}=")
            return Completion([one for one in self._options() if one.text.startswith(current)])
        action = self._at_position()
        completion = Completion() if action is None else _values(action, current)
        if current == "-" or (not completion.candidates and not completion.completes_files):
            completion.candidates += [
                one for one in self._options() if one.text.startswith(current)
            ]
        return completion

    def _take_position(self, word: str) -> None:
        action = self._at_position()
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - see above
            self._parser = action.choices.get(word, self._parser)
            self._position = 0
        elif action is not None and action.nargs not in _SEVERAL:
            self._position += 1

    def _at_position(self) -> argparse.Action | None:
        actions = self._parser._get_positional_actions()  # noqa: SLF001 - see above
        return actions[self._position] if self._position < len(actions) else None

    def _option(self, word: str) -> argparse.Action | None:
        known = self._parser._option_string_actions  # noqa: SLF001 - see above
        return known.get(word.partition("=")[0])

    def _options(self) -> Iterator[Candidate]:
        for action in self._parser._get_optional_actions():  # noqa: SLF001 - see above
            if action.help != argparse.SUPPRESS:
                # One spelling each, the long one: the short are short enough to be typed.
                yield Candidate(action.option_strings[-1], _first_words(action.help))


def _values(action: argparse.Action, current: str, before: str = "") -> Completion:
    if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - see above
        listed = [
            Candidate(str(one.dest), _first_words(one.help))
            for one in action._get_subactions()  # noqa: SLF001
        ]
    else:
        words = _USUAL.get(action.dest, ()) if action.choices is None else action.choices
        listed = [Candidate(str(word)) for word in words]
    found = [
        Candidate(before + one.text, one.help) for one in listed if one.text.startswith(current)
    ]
    return Completion(found, completes_files=action.type is Path)


def _first_words(text: str | None) -> str:
    """Return a help text up to its first stop, in one line."""
    return " ".join((text or "").split()).split("; ")[0]
