"""Golden files: what the product says, word for word, under ``tests/data/golden``.

A file has a section for each case. To write the sections again:
``APPLIANCE_GOLDEN=write pytest tests/unit tests/cli tests/terminal``; read the difference like any
other change.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "tests" / "data" / "golden"
WRITE = "APPLIANCE_GOLDEN"
MARK = "######## "
# A program of this virtual environment, where no other is on the PATH.
BESIDE = r"[^\s']*/ansible-vault\b"
# Patterns that differ between runs, and their replacements.
CHANGING = {
    r"\b[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b": "RUN-ID",
    r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)?": "TIME",
    r"(?<![:\w])\d\d:\d\d:\d\d(?![:\w])": "CLOCK",
    # The column of a line's time, as wide after a minute as before.
    r"\[ *\d+\.\d s\]": "[   SECONDS]",
    r"\b\d+(\.\d+)? s\b": "SECONDS",
    r"/tmp/[^\s'\":,]*": "TEMPORARY",  # noqa: S108
    r"\b[0-9a-f]{64}\b": "DIGEST",
    r"SHA256:[A-Za-z0-9+/]{43}": "FINGERPRINT",
    r"(?<=-)20\d{6}-\d{6}(?=\.tar)": "DATE-TIME",
    # Encryption adds some bytes at random.
    r"\b\d+ bytes(?=, (?:sha256 DIGEST|SECONDS)| from \S+/appliance\b)": "SIZE bytes",
    r"(?<=\"size\": )\d+(?=,\n\S+\s+\"(?:sha256\": \"DIGEST|why))": "SIZE",
    r"\bage1[a-z0-9]{58}\b": "AGE-KEY",
    BESIDE: "ansible-vault",
}


def read(path: Path) -> dict[str, str]:
    """Section -> its text; empty where there is no file."""
    if not path.exists():
        return {}
    parts = re.split(rf"^{MARK}(.*)\n", path.read_text("utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def steady(said: str, *places: tuple[object, str]) -> str:
    """The text without what differs from run to run: ``places`` are paths and their names."""
    for path, name in places:
        said = said.replace(str(path), name)
    for pattern, name in CHANGING.items():
        said = re.sub(pattern, name, said)
    return said


def agree(name: str, section: str, said: str) -> None:
    """The section of ``<name>.txt`` is what was said.

    Raises:
        AssertionError: it is another text, or there is no such section.
    """
    path = GOLDEN / f"{name}.txt"
    # Hints name pages, and what is beside this Python, by their path on this machine.
    said = re.sub(BESIDE, "ansible-vault", said).replace(str(ROOT), "REPOSITORY")
    kept = read(path)
    # A section ends with a newline, and no line of it looks like the start of another.
    said = re.sub(rf"^{MARK.strip()}", "\\#", said.rstrip("\n") + "\n", flags=re.MULTILINE)
    if os.environ.get(WRITE) == "write":
        kept[section] = said
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(f"{MARK}{title}\n{kept[title]}" for title in sorted(kept))
        path.write_text(text, "utf-8")
        return
    assert section in kept, f"{path.name} has no section {section!r}: write it ({WRITE}=write)"
    assert said == kept[section], f"{path.name}, section {section!r}"
