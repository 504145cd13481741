"""The shells' own parts of completion: each asks `understudy completion words` and shows it.

Its answer is a line for each word, with a tab before what it does, and a last line `:4`, or `:0`
where a file could come; kubectl reads the same from the completions of its plugins.
"""

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
