"""Which environment of Python this tool runs in, and by which program it is typed.

An environment is never moved: its programs name their own folder in the first line. So the program
that is typed becomes a link, which leads to one environment or to another.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from appliance.adapters.local.plain_files import read_plain
from appliance.adapters.local.shipped import PACKAGE, find_content_root
from appliance.adapters.local.state_files import COMMITTABLE, replace_file
from appliance.errors import Refused
from appliance.model.documents.pages import page
from appliance.model.documents.strict_json import Unreadable
from appliance.model.documents.typed_json import Line, read_typed

PROGRAM: Final = "appliance"
# In an environment that an upgrade made: what it is, and whether it is whole.
RECEIPT: Final = "appliance-environment.json"
# The image that a bundle carries has this file.
CONTROLLER_MARK: Final = Path("/etc/appliance-controller")
_MOST_BYTES: Final = 64 << 10


@dataclass(frozen=True)
class Receipt:
    """What an upgrade writes into the environment that it makes.

    Attributes:
        version: of the tool in it.
        bundle: digest of the bundle that it came from.
        launcher: the program that is typed.
        previous: the program that the launcher led to before.
        previous_version: the version of that one.
        whole: whether everything is installed, and was started once.
    """

    version: Line
    bundle: Line
    launcher: Line
    previous: Line
    previous_version: Line
    whole: bool = False


@dataclass(frozen=True)
class Environment:
    """The environment of this process.

    Attributes:
        folder: the virtual environment.
        launcher: the program that is typed; a link after the first upgrade.
        receipt: what made it; None if it was made by hand.
    """

    folder: Path
    launcher: Path
    receipt: Receipt | None

    @property
    def home(self) -> Path:
        """The folder beside which new environments are made: that of the launcher."""
        return self.launcher.parent.parent


def this_environment(bundle: Path | None = None) -> Environment:
    """The environment of this process, if an upgrade can make another one beside it.

    Args:
        bundle: the bundle with the new version, for a hint.

    Raises:
        Refused: this is the image of a bundle, a source tree, or no environment of its own.
    """
    if CONTROLLER_MARK.is_file():
        raise _in_the_image(bundle)
    if find_content_root() == PACKAGE.parent:
        raise _in_a_source_tree()
    folder = Path(sys.prefix)
    program = folder / "bin" / PROGRAM
    if sys.prefix == sys.base_prefix:
        raise _not_of_its_own(f"{sys.prefix} is the Python of the whole machine")
    if not PACKAGE.resolve().is_relative_to(folder.resolve()):
        raise _not_of_its_own(f"{PACKAGE} is outside {folder}")
    if not os.path.lexists(program):
        raise _not_of_its_own(f"{program} does not exist")
    receipt = read_receipt(folder)
    launcher = Path(receipt.launcher) if receipt and receipt.whole else program
    if not os.path.lexists(launcher):
        launcher = program
    return Environment(folder, launcher, receipt)


def read_receipt(folder: Path) -> Receipt | None:
    """What an upgrade wrote into an environment; None if there is none that can be read."""
    with suppress(OSError, Unreadable):
        return read_typed(read_plain(folder / RECEIPT, most_bytes=_MOST_BYTES), Receipt)
    return None


def write_receipt(folder: Path, receipt: Receipt, *, whole: bool) -> None:
    """Write it, atomically.

    Raises:
        OSError: it could not be written.
    """
    document = {"schema": 1, **asdict(replace(receipt, whole=whole))}
    text = json.dumps(document, indent=1, sort_keys=True) + "\n"
    replace_file(folder / RECEIPT, text, mode=COMMITTABLE)


def _in_the_image(bundle: Path | None) -> Refused:
    place = bundle.absolute() if bundle else Path("DIR")
    image = shlex.quote(str(place / "controller/appliance-controller.tar"))
    return Refused(
        "this tool runs from its container image, which is replaced as a whole: "
        "nothing was changed",
        hint=f"on the host, check the new image as in {page('run-the-tool-in-a-container')}; then "
        f"docker load -i {image}; then write its version into your shell function",
    )


def _in_a_source_tree() -> Refused:
    tree = shlex.quote(str(PACKAGE.parent))
    python = shlex.quote(sys.executable)
    return Refused(
        f"this tool runs from the source tree {PACKAGE.parent}: nothing was changed",
        hint=f"git -C {tree} pull; then {python} -m pip install "
        f"-c {tree}/.config/constraints.txt -e {tree}",
    )


def _not_of_its_own(why: str) -> Refused:
    return Refused(
        f"this tool is not in a virtual environment of its own: {why}; nothing was changed",
        hint=f"install the bundle's tool into one as in {page('install-the-tool-offline')}",
    )
