"""``appliance completion``: the script that teaches a shell this command line."""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class

from appliance.cli.help.typos import Words

VARIABLE = "_APPLIANCE_COMPLETE"


@click.command()
@click.argument("shell", type=Words(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes this command line in bash, zsh or fish.

    It completes commands, options, steps, nodes, releases, hardware models
    and pages. It reads the site's files, and connects to nothing.

    \b
    For this shell:   eval "$(appliance completion bash)"
    For every shell:  write its output to
    - bash: ~/.local/share/bash-completion/completions/appliance
    - zsh: _appliance, in a folder of $fpath
    - fish: ~/.config/fish/completions/appliance.fish

    Example: appliance completion bash
    """
    made = _of(context.find_root().command, shell)
    if made is None:
        raise click.UsageError(f"this version of click cannot complete for {shell}")
    # Bash's own class starts bash to ask its version; 4.4 is from 2016.
    click.echo(ShellComplete.source(made))


def complete(command: click.Command, instruction: str) -> int:
    """Answer the script: print what can be typed, as text; the exit code.

    Args:
        command: the whole command line.
        instruction: ``bash_complete`` or that of another shell.
    """
    shell, _, what = instruction.partition("_")
    made = _of(command, shell)
    if made is None or what != "complete":
        return 1
    text = made.complete()
    click.echo(text, nl=bool(text))
    return 0


def _of(command: click.Command, shell: str) -> ShellComplete | None:
    found = get_completion_class(shell)
    return found(command, {}, "appliance", VARIABLE) if found else None
