"""`omnigraph completion`: shell completion of commands and options."""

from typing import Annotated, Literal

import typer

from omnigraph.cli.frame.output import say

PROGRAM = "omnigraph"
VARIABLE = "_OMNIGRAPH_COMPLETE"


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish", "powershell"], typer.Argument(metavar="SHELL", help="The shell.")],
    install: Annotated[bool, typer.Option("--install", help="Install it for the shell.")] = False,
) -> None:
    """Print or install shell completion.

    $ omnigraph completion bash --install
    $ omnigraph completion zsh > _omnigraph
    """
    from typer._completion_shared import get_completion_script
    from typer._completion_shared import install as write

    if install:
        _, path = write(shell=shell, prog_name=PROGRAM, complete_var=VARIABLE)
        say(f"installed in {path}: open a new shell")
        return
    say(get_completion_script(prog_name=PROGRAM, complete_var=VARIABLE, shell=shell))


def prepare_completion() -> None:
    """Register the shells that may request completions."""
    from typer._completion_classes import completion_init

    completion_init()
