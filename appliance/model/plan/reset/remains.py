"""What one machine still has of the product, as its own survey says.

The survey is ``roles/node_bare/module_utils/bare_survey.py``; what it says is not trusted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import Field

from appliance.model.documents.typed_json import Line, read_typed

_MOST_BYTES: Final = 1 << 20
Lines = Annotated[tuple[Line, ...], Field(max_length=5000)]
Epoch = Annotated[int, Field(ge=0, lt=1 << 40)]
Pairs = Annotated[tuple[tuple[Line, Line], ...], Field(max_length=5000)]


@dataclass(frozen=True)
class Remains:
    """The answer of a machine.

    Attributes:
        packages: that the product brought, and that are to be purged.
        held: packages on hold by the product.
        files: fixed paths of the product's roles, and files with lines of ours.
        own: in the product's own two folders.
        last: documents and lock of the site.
        data: (path, what it is): only an option of its own removes them.
        stays: (what, why): a reset leaves it.
        newest_backup: (path, UTC epoch seconds) of the newest backup or snapshot, if there is any.
        ca_sha256: of the site's CA there; empty without one.
    """

    packages: Lines = ()
    held: Lines = ()
    files: Lines = ()
    own: Lines = ()
    last: Lines = ()
    data: Pairs = ()
    stays: Pairs = ()
    newest_backup: tuple[Line, Epoch] | None = None
    ca_sha256: Line = ""

    @property
    def goes(self) -> tuple[str, ...]:
        """What a reset takes away, beside data, documents and lock."""
        return (*self.packages, *self.held, *self.files, *self.own)


def parse_remains(text: str) -> Remains:
    """Read the answer of the survey.

    Raises:
        Unreadable: it is no such document.
    """
    return read_typed(text, Remains, most_bytes=_MOST_BYTES)
