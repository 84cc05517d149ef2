"""A fake of the documents that a site keeps on this machine."""

from __future__ import annotations


class FakeDocuments:
    """Documents of this machine: name -> text."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def keep(self, name: str, text: str) -> bool:
        changed = self.texts.get(name) != text
        self.texts[name] = text
        return changed

    def read(self, name: str) -> str | None:
        return self.texts.get(name)
