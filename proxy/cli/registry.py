"""The interface by which commands register their parsers."""

import argparse
from collections.abc import Sequence
from typing import Protocol


class CommandRegistry(Protocol):
    """The part of argparse's subparsers that commands use."""

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
