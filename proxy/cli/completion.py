"""`understudy completion`: shell completion of commands, options and values."""

import argparse
import sys
from collections.abc import Sequence

from proxy.cli.completion_engine import complete
from proxy.cli.registry import CommandRegistry

BASH = r"""# bash completion for understudy; in ~/.bashrc: source <(understudy completion bash)
_understudy_complete() {
    local line lines
    COMPREPLY=()
    mapfile -t lines < <(
        understudy completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null
    )
    for line in "${lines[@]}"; do
        case "$line" in
            :0) compopt -o default 2>/dev/null ;;
            :*) ;;
            *) COMPREPLY+=("${line%%$'\t'*}") ;;
        esac
    done
    # After an equals sign bash shows and replaces only what follows it.
    if [[ "${COMP_WORDS[COMP_CWORD]}" == *=* ]]; then
        COMPREPLY=("${COMPREPLY[@]#*=}")
    fi
}
complete -F _understudy_complete understudy
"""

ZSH = r"""#compdef understudy
# zsh completion for understudy; in ~/.zshrc, after compinit: source <(understudy completion zsh)
_understudy() {
    local line
    local -a lines described
    lines=("${(@f)$(understudy completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    for line in "${lines[@]}"; do
        case "$line" in
            :0) _files ;;
            :*) ;;
            *) described+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;;
        esac
    done
    (( ${#described} )) && _describe 'understudy' described
}
if [ "$funcstack[1]" = "_understudy" ]; then
    _understudy  # autoloaded from a directory of $fpath by the first completion
elif (( $+functions[compdef] )); then
    compdef _understudy understudy
fi
"""

FISH = r"""# fish completion for understudy; in config.fish: understudy completion fish | source
function __understudy_complete
    set -l words (commandline -opc)
    set -e words[1]
    set -l current (commandline -ct)
    for line in (understudy completion words -- $words "$current" 2>/dev/null)
        switch $line
            case ':0'
                __fish_complete_path "$current"
            case ':*'
            case '*'
                echo $line
        end
    end
end
complete -c understudy -f -a '(__understudy_complete)'
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


_WORDS = "words"
# The directives of cobra, which kubectl expects from plugins.
_NO_FILES, _FILES = ":4", ":0"
_EPILOG = """\
examples:
  understudy completion bash > /etc/bash_completion.d/understudy

  bash  source <(understudy completion bash)
  zsh   source <(understudy completion zsh)
  fish  understudy completion fish | source

`kubectl understudy` is completed by kubectl's own completion: it finds kubectl_complete-understudy
next to kubectl-understudy.

exit codes: 0 printed, 2 invalid options
"""


def register(commands: CommandRegistry) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser(
        "completion",
        help="print the completion script for a shell",
        description="Print the completion script for a shell. The scripts call `words`, which\n"
        "prints the candidates for the last word of a command line.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "shell", choices=(*SCRIPTS, _WORDS), metavar="SHELL", help="bash, zsh, fish"
    )
    parser.add_argument("line", nargs=argparse.REMAINDER, metavar="WORD", help=argparse.SUPPRESS)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print a completion script, or the candidates for a command line."""
    if options.shell == _WORDS:
        line = options.line
        print(completion_text(line[1:] if line[:1] == ["--"] else line))
    else:
        sys.stdout.write(SCRIPTS[options.shell])
    return 0


def run_for_kubectl() -> None:
    """Run as `kubectl_complete-understudy`, with the words after the plugin's name as arguments."""
    print(completion_text(sys.argv[1:]))


def completion_text(words: Sequence[str]) -> str:
    """Return one line per candidate for the last word, then a directive about files."""
    # Imported here: the main module imports its commands only when they are used.
    from proxy.cli.main import parser_for  # noqa: PLC0415

    completion = complete(parser_for(words), words)
    lines = [f"{candidate.text}\t{candidate.help}".rstrip() for candidate in completion.candidates]
    return "\n".join([*lines, _FILES if completion.completes_files else _NO_FILES])
