# SPDX-License-Identifier: GPL-2.0-or-later
# bash completion for perchcli(8): perchcli itself knows what may follow.
# shellcheck shell=bash

_perchcli() {
    local line word candidates
    local -a words
    # bash splits words at ':' and '='; perchcli wants them whole, up to the cursor.
    line=${COMP_LINE:0:COMP_POINT}
    read -r -a words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    word=${words[-1]}
    mapfile -t candidates < <("${words[0]}" --complete "${words[@]:1}" 2>/dev/null)

    # What bash replaces begins after the last break character of the word.
    local prefix=""
    if [[ $word == *[:=]* && $COMP_WORDBREAKS == *[:=]* ]]; then
        prefix=${word%"${word##*[:=]}"}
    fi
    COMPREPLY=("${candidates[@]#"$prefix"}")

    # Objects and options with values go on without a blank.
    local one
    if [[ ${#COMPREPLY[@]} -eq 1 ]]; then
        one=${candidates[0]}
        if [[ $one == *= || $one == drives=* || $one == spares=* || $one == dgs=* || $one =~ ^/c[^/]+(/e[^/]+)?$ ]]; then
            compopt -o nospace
        fi
    fi
}
complete -F _perchcli perchcli
