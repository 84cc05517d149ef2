"""Commands of a page of operations, typed in a lab as they stand, to go on and to undo."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from tests.contract.test_docs import OPERATIONS, commands_in

TYPED_SECTIONS = ("Command", "Undo")


def written(page: str) -> list[str]:
    """The commands under ``## Command`` and ``## Undo`` of a page, in its order."""
    text = (OPERATIONS / f"{page}.md").read_text(encoding="utf-8")
    found = (s for s in text.split("\n## ")[1:] if s.partition("\n")[0] in TYPED_SECTIONS)
    return [command for section in found for command in commands_in(section)]


@dataclass(frozen=True)
class Runbook:
    """A page whose commands a lab's tests type.

    ``tests/contract/test_typed_commands.py`` reads the calls of ``words`` in the labs' modules, so
    a command of a page that nothing types is found without a lab.

    Attributes:
        page: its name, without the suffix.
    """

    page: str

    def words(self, command: str, values: Mapping[str, str]) -> list[str]:
        """The words of a command of the page, without a redirection.

        Args:
            command: as the page has it.
            values: a name of the page (``SITE``, ``cp3``, a file) -> what the lab has for it;
                an empty text where it has none.

        Raises:
            AssertionError: the page has no such command.
        """
        assert command in written(self.page), f"{self.page}.md has no {command}"
        typed = shlex.split(command.partition(" > ")[0])[1:]
        return [found for word in typed if (found := values.get(word, word))]
