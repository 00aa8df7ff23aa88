"""The command `completion`: a script by which a shell completes commands, options, files and folders."""

from __future__ import annotations

import argparse
import copy
from collections.abc import Iterator
from typing import Any

from ....schemas.errors import ConfigError
from ....schemas.exit_codes import EXIT_PASSED
from .base import reject_arguments

SHELLS = ("bash", "zsh", "fish", "tcsh")
_ABOUT = """\
Prints a script that makes a shell complete the commands and options of evalbeam, and the files and folders that they
take. It needs shtab: pip install 'evalbeam[completion]'"""
_EXAMPLES = """\
examples:
  evalbeam completion bash > ~/.local/share/bash-completion/completions/evalbeam
  evalbeam completion zsh > ~/.zfunc/_evalbeam      with fpath+=~/.zfunc before compinit in ~/.zshrc
"""
_FURTHER = {
    "run": ["CONFIG"],
    "check": ["CONFIG"],
    "retry": ["FOLDER"],
    "rescore": ["FOLDER", "CONFIG"],
    "publish": ["CONFIG"],
}
"""Arguments that these commands take from what argparse leaves over."""
_FILES = frozenset(("CONFIG", "FILE", "PATH", "EVAL_SET", "RUNS"))
_FOLDERS = frozenset(("FOLDER", "OUTPUT", "BEFORE", "AFTER", "OLD", "NEW"))


def add(commands: Any) -> None:
    """Adds the command."""
    words = "print a script for the completion of a shell"
    parser = commands.add_parser("completion", help=words, description=_ABOUT, epilog=_EXAMPLES)
    parser.add_argument("shell", choices=SHELLS, help="the shell")
    parser.set_defaults(handle=_complete)


def _complete(args: argparse.Namespace, rest: list[str]) -> int:
    from ...display.console import say

    reject_arguments(rest)
    try:
        import shtab
    except ImportError:
        raise ConfigError(
            "shtab is not installed", where="completion", allowed="pip install 'evalbeam[completion]'"
        ) from None
    parser = copy.deepcopy(args.parser)  # the process may parse other commands with the original
    for action in _list_arguments(parser):
        named = str(action.metavar or action.dest).upper()
        if named in _FILES | _FOLDERS:
            action.complete = shtab.DIRECTORY if named in _FOLDERS else shtab.FILE  # type: ignore[attr-defined]  (shtab reads it)
    say(shtab.complete(parser, args.shell))
    return EXIT_PASSED


def _list_arguments(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yields the arguments of a parser and of its commands; adds to the commands what they take beside them.

    Argparse has no public list of arguments; shtab reads the same private one.
    """
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                for further in _FURTHER.get(name, ()):
                    command.add_argument(further, nargs="?")
                yield from _list_arguments(command)
