"""`understudy completion`: what a shell needs to complete our commands, options and values."""

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
    _understudy  # loaded from a directory of $fpath, by the first completion
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


def register(commands: CommandRegistry) -> None:
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
    lines = [f"{one.text}\t{one.help}".rstrip() for one in completion.candidates]
    return "\n".join([*lines, _FILES if completion.completes_files else _NO_FILES])
