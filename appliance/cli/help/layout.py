"""The layout of help: no line is wider than the screen, whatever a docstring's lines are."""

from __future__ import annotations

import re
import textwrap

import click

_BULLET = re.compile(r"\s*- ")


class Lines(click.HelpFormatter):
    r"""Help whose literal blocks (``\b``) are wrapped as well, each item under its own dash."""

    def write_text(self, text: str) -> None:
        """Write paragraphs at the current indent."""
        width = max(self.width - self.current_indent, 11)
        paragraphs = [self._paragraph(part, width) for part in re.split(r"\n\s*\n", text) if part]
        block = "\n\n".join(part for part in paragraphs if part)
        self.write(textwrap.indent(block, " " * self.current_indent) + "\n")

    def _paragraph(self, text: str, width: int) -> str:
        lines = text.strip("\n").splitlines()
        if not lines or lines[0].strip() != "\b":
            words = " ".join(text.split())
            return textwrap.fill(words, width, break_long_words=False, break_on_hyphens=False)
        return "\n".join(_wrapped(line, width) for line in _joined(lines[1:]))


def _joined(lines: list[str]) -> list[str]:
    """The lines, each with those that continue it: they are indented below a dash."""
    found: list[str] = []
    for line in lines:
        continues = found and _BULLET.match(found[-1]) and re.match(r"\s+[^\s-]", line)
        if continues:
            found[-1] += f" {line.strip()}"
        else:
            found.append(line.rstrip())
    return found


def _wrapped(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    bullet = _BULLET.match(line)
    indent = " " * (len(bullet[0]) if bullet else len(line) - len(line.lstrip()))
    return textwrap.fill(
        line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
