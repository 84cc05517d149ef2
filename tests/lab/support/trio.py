"""A lab with three control-plane nodes and a worker, installed.

``APPLIANCE_TEST_TRIO=DIR`` uses the lab of that site, which is up already, and leaves it up.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab.conftest import LabSite, lab_up


@contextmanager
def installed_trio(short: str, folder: Path, bundle: Path) -> Iterator[LabSite]:
    """The lab, for as long as it is needed.

    Args:
        short: of the lab's name.
        folder: for its site.
        bundle: to install from.
    """
    if given := os.environ.get("APPLIANCE_TEST_TRIO"):
        yield LabSite(Path(given).name, Path(given), bundle)
        return
    words = ("--control-planes", "3", "--workers", "1", "--bundle", str(bundle))
    with lab_up(short, folder, *words) as site:
        found = LabSite(site.name, site, bundle)
        done = found.install(timeout=2400)
        assert done.returncode == 0, done.stderr
        yield found
