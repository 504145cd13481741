"""The type by which commands register their parsers."""

import argparse
from typing import TypeAlias

# What `add_subparsers` returns has no public name.
CommandRegistry: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001
