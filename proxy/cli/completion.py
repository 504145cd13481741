"""`understudy completion`: what a shell needs to complete our commands, options and values."""

import argparse
import sys
from collections.abc import Sequence

from proxy.cli.completing import complete
from proxy.cli.completion_scripts import SCRIPTS
from proxy.cli.registry import Commands

_WORDS = "words"
# As kubectl's plugins and everything made with cobra say it.
_NO_FILES, _FILES = ":4", ":0"
_EPILOG = """\
examples:
  understudy completion bash > /etc/bash_completion.d/understudy

  bash  source <(understudy completion bash)
  zsh   source <(understudy completion zsh)
  fish  understudy completion fish | source

`kubectl understudy` is completed by kubectl's own completion: it finds kubectl_complete-understudy
beside kubectl-understudy.

exit codes: 0 printed, 2 wrong options
"""


def register(commands: Commands) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser(
        "completion",
        help="print a shell's completion script",
        description="Print the completion script of a shell. `words` is what the scripts ask:\n"
        "it prints what the last of the words after it could become.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "shell", choices=(*SCRIPTS, _WORDS), metavar="SHELL", help="bash, zsh, fish"
    )
    parser.add_argument("line", nargs=argparse.REMAINDER, metavar="WORD", help=argparse.SUPPRESS)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print a script, or what could come next."""
    if options.shell == _WORDS:
        line = options.line
        print(completion_text(line[1:] if line[:1] == ["--"] else line))
    else:
        sys.stdout.write(SCRIPTS[options.shell])
    return 0


def run_for_kubectl() -> None:
    """Be `kubectl_complete-understudy`, which kubectl calls with the words after the plugin's."""
    print(completion_text(sys.argv[1:]))


def completion_text(words: Sequence[str]) -> str:
    """Return what the last word could become, a line for each, and a last one about files."""
    # Here and not above: the main module imports its commands one by one.
    from proxy.cli.main import parser_for  # noqa: PLC0415

    completion = complete(parser_for(words), words)
    lines = [f"{one.word}\t{one.help}".rstrip() for one in completion.candidates]
    return "\n".join([*lines, _FILES if completion.takes_file else _NO_FILES])
