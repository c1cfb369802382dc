"""`kvedge completion bash|zsh|fish`: the script that completes kvedge's words in a shell.

Called by the group. Prints.
"""

from __future__ import annotations

from typing import Final

import click

_PROGRAM: Final = "kvedge"
_VARIABLE: Final = "_KVEDGE_COMPLETE"

# click's own takes the words as bash splits them, and bash splits at "@": `kvedge ssh joe@vm/we` would be three words.
# So the line is split at blanks, and what bash keeps of the last word is taken off each answer.
_BASH: Final = """\
_kvedge_completion() {
    local line="${COMP_LINE:0:COMP_POINT}" kept="" response type value
    local -a words
    IFS=' ' read -ra words <<< "$line"
    local count=${#words[@]} current=""
    if [[ $line != *" " ]]; then
        count=$((count - 1))
        current="${words[count]}"
    fi
    if [[ $COMP_WORDBREAKS == *@* && $current == *@* ]]; then
        kept="${current%"${current##*@}"}"
    fi
    response=$(env COMP_WORDS="$line" COMP_CWORD="$count" _KVEDGE_COMPLETE=bash_complete "$1" 2>/dev/null)
    while IFS=',' read -r type value; do
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("${value#"$kept"}") ;;
        esac
    done <<< "$response"
    # A word that ends in a slash goes on.
    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == */ ]]; then
        compopt -o nospace
    fi
}
complete -o nosort -F _kvedge_completion kvedge
"""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes kvedge's words in a shell.

    \b
    bash:  kvedge completion bash > /etc/bash_completion.d/kvedge
    zsh:   kvedge completion zsh > "${fpath[1]}/_kvedge"
    fish:  kvedge completion fish > ~/.config/fish/completions/kvedge.fish
    """
    if shell == "bash":
        click.echo(_BASH, nl=False)
        return
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    complete = found(click.get_current_context().find_root().command, {}, _PROGRAM, _VARIABLE)
    click.echo(complete.source())
