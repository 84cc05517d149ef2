"""What is wrong with a list that a command of ours wrote, and that another one reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from appliance.errors import BundleRefused
from appliance.model.documents.strict_json import NewerSchema, Unreadable


@contextmanager
def reading_list(name: str, command: str, again: str) -> Iterator[None]:
    """Tell what is wrong with a list that is read within.

    Args:
        name: the file, for the message.
        command: that wrote it, without the tool's name.
        again: how it is written again, for the hint.

    Raises:
        BundleRefused: it is not a list of that command, or one of a newer version.
    """
    try:
        yield
    except NewerSchema as error:
        raise BundleRefused(f"the list {name}: {error}", hint=again) from error
    except Unreadable as error:
        raise BundleRefused(
            f"{name} is not a list of 'appliance {command}': {error}", hint=again
        ) from error
