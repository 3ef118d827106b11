"""Completion of the command line in shells: a script made from the parser."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping

__all__ = ["SHELLS", "completion_script"]

SHELLS = ("bash", "zsh", "fish")


def completion_script(commands: Mapping[str, argparse.ArgumentParser], shell: str) -> str:
    """The script that completes commands, options and their values; files elsewhere."""
    if shell == "fish":
        return _fish(commands)
    script = _bash(commands)
    return f"autoload -U +X bashcompinit && bashcompinit\n{script}" if shell == "zsh" else script


def _bash(commands: Mapping[str, argparse.ArgumentParser]) -> str:
    options, values = [], {}
    for name, parser in commands.items():
        flags = [flag for action in parser._actions for flag in action.option_strings]
        options.append(f"        {name}) words={shlex.quote(' '.join(flags))} first={shlex.quote(_first(parser))} ;;")
        for action in parser._actions:
            if action.choices and action.option_strings:
                values.update({flag: " ".join(map(str, action.choices)) for flag in action.option_strings})
    of_values = [
        f'        {flag}) COMPREPLY=($(compgen -W {shlex.quote(words)} -- "$current")); return ;;'
        for flag, words in values.items()
    ]
    return "\n".join(
        [
            "_pullquote() {",
            '    local current="${COMP_WORDS[COMP_CWORD]}" words first',
            '    case "${COMP_WORDS[COMP_CWORD-1]}" in',
            *of_values,
            "    esac",
            "    if ((COMP_CWORD == 1)); then",
            f"        words={shlex.quote(' '.join([*commands, '--help', '--version']))}",
            '    else case "${COMP_WORDS[1]}" in',
            *options,
            "    esac; fi",
            '    [[ "$current" == -* || $COMP_CWORD == 1 ]] && COMPREPLY=($(compgen -W "$words" -- "$current"))',
            '    [[ "$current" != -* && $COMP_CWORD == 2 && -n "$first" ]] && COMPREPLY=($(compgen -W "$first" -- "$current"))',
            "}",
            "complete -o default -F _pullquote pullquote",
            "",
        ]
    )


def _first(parser: argparse.ArgumentParser) -> str:
    """The words that may follow a command: a subcommand, or a value."""
    return " ".join(
        str(word) for action in parser._actions if not action.option_strings for word in action.choices or ()
    )


def _fish(commands: Mapping[str, argparse.ArgumentParser]) -> str:
    names = " ".join(commands)
    lines = [f"complete -c pullquote -n 'not __fish_seen_subcommand_from {names}' -f -a '{names}'"]
    for name, parser in commands.items():
        if first := _first(parser):
            lines.append(f"complete -c pullquote -n '__fish_seen_subcommand_from {name}' -f -a {shlex.quote(first)}")
        for action in parser._actions:
            flags = [f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in action.option_strings]
            if not flags:
                continue
            takes = "" if action.nargs == 0 else " -x" if action.choices else " -r"
            words = f" -a {shlex.quote(' '.join(map(str, action.choices)))}" if action.choices else ""
            about = shlex.quote((action.help or "").replace("%%", "%").partition("%(")[0].partition(";")[0].strip())
            lines.append(
                f"complete -c pullquote -n '__fish_seen_subcommand_from {name}' {' '.join(flags)}{takes}{words} -d {about}"
            )
    return "\n".join([*lines, ""])
