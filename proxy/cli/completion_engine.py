"""Completion candidates for a command line, derived from the argparse parsers.

argparse exposes the options of a parser only by private attributes. Their names have never changed,
and a test completes every command.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
# Candidates for arguments without choices, because other values are valid as well.
_SUGGESTED_VALUES = {"verb": _VERBS}
_REPEATED = frozenset({argparse.ONE_OR_MORE, argparse.ZERO_OR_MORE, argparse.REMAINDER})


@dataclass(frozen=True, slots=True)
class Candidate:
    """A possible word, and its description."""

    text: str
    help: str = ""


@dataclass(slots=True)
class Completion:
    """The possible words, and whether a file name is possible."""

    candidates: list[Candidate] = field(default_factory=list)
    completes_files: bool = False


def complete(parser: argparse.ArgumentParser, words: Sequence[str]) -> Completion:
    """Return the completions of the last word, which may be empty."""
    *prefix, current = words or [""]
    state = _ParserState(parser)
    for word in prefix:
        state.consume(word)
    return state.complete(current)


class _ParserState:
    """Follows a command line as argparse would, ignoring errors."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._parser = parser
        self._pending_option: argparse.Action | None = None
        """The option whose value is the next word."""
        self._position = 0
        self._has_options = True

    def consume(self, word: str) -> None:
        """Process one complete word."""
        if self._pending_option is not None:
            # Some shells split words at equals signs and pass these as words.
            self._pending_option = self._pending_option if word == "=" else None
        elif word == "--":
            self._has_options = False
        elif self._has_options and word.startswith("-") and word != "-":
            option = self._option(word)
            if option is not None and option.nargs != 0 and "=" not in word:
                self._pending_option = option
        else:
            self._consume_positional(word)

    def complete(self, current: str) -> Completion:
        """Return the completions of a word at the current position."""
        if self._pending_option is not None:
            return _values(self._pending_option, "" if current == "=" else current)
        if self._has_options and current.startswith("-") and current != "-":
            name, equals, value = current.partition("=")
            option = self._option(name)
            if equals and option is not None:
                return _values(option, value, prefix=f"{name}=")
            return Completion(self._matching_options(current))
        action = self._current_positional()
        completion = Completion() if action is None else _values(action, current)
        if current == "-" or (not completion.candidates and not completion.completes_files):
            completion.candidates += self._matching_options(current)
        return completion

    def _matching_options(self, current: str) -> list[Candidate]:
        return [option for option in self._options() if option.text.startswith(current)]

    def _consume_positional(self, word: str) -> None:
        action = self._current_positional()
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - see above
            self._parser = action.choices.get(word, self._parser)
            self._position = 0
        elif action is not None and action.nargs not in _REPEATED:
            self._position += 1

    def _current_positional(self) -> argparse.Action | None:
        actions = self._parser._get_positional_actions()  # noqa: SLF001 - see above
        return actions[self._position] if self._position < len(actions) else None

    def _option(self, word: str) -> argparse.Action | None:
        known = self._parser._option_string_actions  # noqa: SLF001 - see above
        return known.get(word.partition("=")[0])

    def _options(self) -> Iterator[Candidate]:
        for action in self._parser._get_optional_actions():  # noqa: SLF001 - see above
            if action.help != argparse.SUPPRESS:
                # Only the long spelling: a short one needs no completion.
                yield Candidate(action.option_strings[-1], _summary(action.help))


def _values(action: argparse.Action, current: str, prefix: str = "") -> Completion:
    if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - see above
        listed = [
            Candidate(str(command.dest), _summary(command.help))
            for command in action._get_subactions()  # noqa: SLF001
        ]
    else:
        words = _SUGGESTED_VALUES.get(action.dest, ()) if action.choices is None else action.choices
        listed = [Candidate(str(word)) for word in words]
    found = [
        Candidate(prefix + candidate.text, candidate.help)
        for candidate in listed
        if candidate.text.startswith(current)
    ]
    return Completion(found, completes_files=action.type is Path)


def _summary(text: str | None) -> str:
    """Return a help text up to its first semicolon, as one line."""
    return " ".join((text or "").split()).split("; ")[0]
