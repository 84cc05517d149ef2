"""The edge: every error becomes a few lines and an exit code. Only here the process ends."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from pathlib import Path

import click

from appliance.errors import ApplianceError


def main() -> None:
    """Run the command line; the process ends with the documented exit code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code; errors are shown on stderr."""
    from appliance.cli.app import cli

    try:
        code = cli.main(arguments, prog_name="appliance", standalone_mode=False)
    except ApplianceError as error:
        show(error)
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("error: interrupted", err=True)
        return 130
    except BrokenPipeError:
        _silence_stdout()
        return 0
    except Exception as error:  # the edge: whatever else happens is a fault of ours
        click.echo(f"error: a fault in this tool: {error.__class__.__name__}: {error}", err=True)
        click.echo("hint: send the log to the makers; nothing hides behind it", err=True)
        click.echo(f"log: {_keep_traceback()}", err=True)
        return 1
    return code if isinstance(code, int) else 0


def show(error: ApplianceError) -> None:
    """Print an error: the sentence, further faults, the task, what to do, the log."""
    click.echo(f"error: {error.message}", err=True)
    for detail in error.details:
        click.echo(f"  - {detail}", err=True)
    if error.task:
        click.echo(f"task: {error.task}", err=True)
    if error.hint:
        click.echo(f"hint: {error.hint}", err=True)
    if error.log_path:
        click.echo(f"log: {error.log_path}", err=True)


def _keep_traceback() -> Path:
    handle, name = tempfile.mkstemp(prefix="appliance-fault-", suffix=".log")
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(traceback.format_exc())
    return Path(name)


def _silence_stdout() -> None:
    """The reader of our output went away (``| head``): say nothing more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
