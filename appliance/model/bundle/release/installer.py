"""The installer's medium of an operating system, as a release names it.

The operator brings the ISO: it is in no bundle. What must not be here: what is changed on it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from appliance.model.bundle.archives.archive import Frozen

Layout = Literal["ubuntu", "standin"]


class InstallerMedium(Frozen):
    """One ISO.

    Attributes:
        layout: where its kernel and boot menus are, and which seeds it reads.
        name: of the file, as its makers name it.
        url: where it is, for people: nothing here fetches it; None for what is made in place.
        sha256: None for what is made in place, and differs each time.
    """

    layout: Layout
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,100}\.iso$")]
    url: Annotated[str, Field(pattern=r"^https://[!-~]{1,300}$")] | None = None
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
