"""Groups and choices that answer a word they do not know with one that they do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from appliance.cli.help.foreign import FOREIGN

if TYPE_CHECKING:
    _Choice = click.Choice[str]
else:  # Click 8.1 has no choices of a type.
    _Choice = click.Choice


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The most similar of the known words, or None."""
    found = difflib.get_close_matches(word.lower(), sorted(known), n=1, cutoff=0.6)
    return found[0] if found else None


class Nouns(click.Group):
    """A group that answers a word it does not know, and lists its commands with whole summaries."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first word names.

        Raises:
            click.UsageError: there is none; the message names what was meant.
        """
        word = args[0]
        unknown = self.get_command(ctx, word) is None and not word.startswith("-")
        if unknown and not ctx.resilient_parsing:
            ctx.fail(" ".join([f"No such command {word!r}.", *self._answer(ctx, word)]))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write every command with its summary; a long one is continued on the next line."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.summaries(ctx).items()))

    def summaries(self, ctx: click.Context) -> dict[str, str]:
        """Every command with the first sentence of its help, whole."""
        found = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        return {
            name: command.get_short_help_str(limit=1000)
            for name, command in found.items()
            if command is not None and not command.hidden
        }

    def _answer(self, ctx: click.Context, word: str) -> Iterator[str]:
        """One sentence, or nothing where no word is near."""
        top = ctx.find_root()
        typed = f"{ctx.command_path} {word}".removeprefix(f"{top.command_path} ").lower()
        if typed in FOREIGN:
            yield FOREIGN[typed]
        elif near := nearest(word, self.list_commands(ctx)):
            yield f"Did you mean: {ctx.command_path} {near}"
        elif elsewhere := self._elsewhere(top, word.lower()):
            yield f"Did you mean: {elsewhere}"

    def _elsewhere(self, top: click.Context, word: str) -> str | None:
        """The command of another group that has this name, or nearly."""
        found: dict[str, str] = {}
        root = top.command
        nouns = root.list_commands(top) if isinstance(root, click.Group) else []
        for noun in nouns:
            group = root.get_command(top, noun) if isinstance(root, click.Group) else None
            verbs = group.list_commands(top) if isinstance(group, click.Group) else []
            for verb in verbs:
                found.setdefault(verb, f"{top.command_path} {noun} {verb}")
        near = nearest(word, found)
        return found[near] if near else None


class Words(_Choice):
    """A choice of words that names the nearest one when it gets another."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value, if it is one of the words.

        Raises:
            click.BadParameter: it is not; the message names the nearest, and all.
        """
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            near = nearest(str(value), [str(choice) for choice in self.choices])
            if near is None:
                raise
            raise click.BadParameter(
                f"{error.message.rstrip('.')}. Did you mean {near!r}?", ctx=ctx, param=param
            ) from None
