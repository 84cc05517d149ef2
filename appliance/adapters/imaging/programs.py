"""The texts of the programs that an installer runs on a bare server."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import appliance.installer
from appliance.model.node.imaging.seed import Programs

_FOLDER: Final = Path(appliance.installer.__file__).parent


def installer_programs() -> Programs:
    """As they stand in :mod:`appliance.installer`."""
    texts = {
        name: (_FOLDER / f"{name}.py").read_text("utf-8") for name in ("disk", "report", "choose")
    }
    return Programs(**texts)
