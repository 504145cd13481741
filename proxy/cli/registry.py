"""Where commands add themselves."""

import argparse
from collections.abc import Sequence
from typing import Protocol


class CommandRegistry(Protocol):
    """The part of argparse that a command needs: a parser of its own."""

    def add_parser(
        self,
        name: str,
        *,
        help: str | None = ...,  # noqa: A002 - argparse's name for it
        description: str | None = ...,
        epilog: str | None = ...,
        aliases: Sequence[str] = ...,
        formatter_class: type[argparse.HelpFormatter] = ...,
    ) -> argparse.ArgumentParser:
        """Return the parser of a new command."""
        ...
