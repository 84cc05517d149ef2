"""The page of each hardware model, made from its file.

``python -m tests.contract.hardware_pages`` writes all of them.
"""

from __future__ import annotations

from pathlib import Path

from appliance.adapters.local.hardware_models import load_bios_settings, load_hardware
from appliance.model.checks.hardware.model_page import model_page
from tests.contract import tree

FOLDER = tree.ROOT / "appliance/docs/hardware"


def pages() -> dict[Path, str]:
    """Path of the page -> its text, for every model that is a machine."""
    settings = load_bios_settings()
    return {
        FOLDER / f"{name.replace('/', '-')}.md": model_page(name, model, settings)
        for name, model in load_hardware().items()
        if not model.standin
    }


if __name__ == "__main__":
    for path, text in pages().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
