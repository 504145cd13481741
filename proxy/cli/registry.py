"""Where commands add themselves."""

import argparse
from typing import Protocol


class Commands(Protocol):
    """The part of argparse that a command needs: a parser of its own."""

    def add_parser(
        self,
        name: str,
        *,
        help: str | None = ...,  # noqa: A002 - argparse's name for it
        description: str | None = ...,
        epilog: str | None = ...,
        formatter_class: type[argparse.HelpFormatter] = ...,
    ) -> argparse.ArgumentParser:
        """Return the parser of a new command."""
        ...
