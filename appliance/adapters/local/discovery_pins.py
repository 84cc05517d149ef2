"""The pins of a discovery, in the state of the site that is going to be written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from appliance.adapters.local.plain_files import read_plain
from appliance.adapters.local.state_files import STATE, make_folder, replace_file
from appliance.errors import ConfigError, Refused
from appliance.model.checks.discovery.pins import MOST_BYTES, pins_text, read_pins
from appliance.model.documents.strict_json import Unreadable

if TYPE_CHECKING:
    from appliance.model.checks.discovery.pins import Pins

FILE: Final = "discovery.json"


class SitePins:
    """The pins of one site.

    Args:
        directory: of the site, which need not exist.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / STATE / FILE

    def where(self) -> str:
        """Their file, for messages."""
        return str(self._path)

    def read(self) -> Pins:
        """All of them; empty if there was none.

        Raises:
            ConfigError: they cannot be read.
        """
        try:
            return read_pins(read_plain(self._path, most_bytes=MOST_BYTES))
        except FileNotFoundError:
            return {}
        except (OSError, Unreadable) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise ConfigError(
                f"{self._path} cannot be read: {reason}",
                hint="look at it; without it every key is asked for again",
            ) from error

    def write(self, pins: Pins) -> None:
        """Keep these instead.

        Raises:
            Refused: the file cannot be written.
        """
        try:
            make_folder(self._path.parent)
            replace_file(self._path, pins_text(pins))
        except OSError as error:
            raise Refused(
                f"{self._path} cannot be written: {error.strerror}",
                hint="choose a directory that you may write to",
            ) from error

    def forget(self) -> None:
        """Remove them: the site has the keys now."""
        self._path.unlink(missing_ok=True)
