"""Hand-made settings in words, without what their names or their forms call secret.

What must not be here: what a secret looks like (:mod:`appliance.model.support`), or which settings
are hand-made (:mod:`appliance.model.upgrade.losses`).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from appliance.model.support.forms import is_secret_name, marked
from appliance.model.support.redaction import redacted
from appliance.model.upgrade.handmade.settings_diff import MOST_SHOWN, shown

# Headers with which a kubelet asks for its pods: they hold a login under any name.
SECRET_KEYS: Final = ("staticPodURLHeader",)
# What no secret is, whatever its name: enable-bootstrap-token-auth is a switch.
HARMLESS: Final = ("absent", "true", "false")


def is_after_secret(key: str, words: Sequence[str]) -> bool:
    """Whether an argument is no option: it is the word after one that takes a secret."""
    return any(
        option.startswith("-") and is_secret_name(option) and not word.startswith("-")
        for option, word in itertools.pairwise(words)
        if word.partition("=")[0] == key
    )


def is_secret(keys: Iterable[str]) -> bool:
    """Whether a key on the way to a value says that the value is secret."""
    return any(key in SECRET_KEYS or is_secret_name(key) for key in keys)


def told_name(name: str) -> str:
    """The name of a setting without secrets; a part of it is a key, or an argument's word."""
    told = str(redacted(name))
    if told != name:
        return told
    keys = [str(redacted(key)) for key in name.split(".")]
    return ".".join(keys)


def told_value(name: str, text: str) -> str:
    """A value for people without secrets, by the whole name of its setting."""
    keys = name.split(".")
    if is_secret(keys) or told_name(name) != name:
        return told(keys[-1], text, named=True)
    # Of a list, the item after an option is its value.
    structure = _structure(text)
    if structure is not None and (public := redacted(structure)) != structure:
        return shown(public)
    return told(keys[-1], text, named=False)


def told(name: str, text: str, *, named: bool) -> str:
    """A value for people without secrets; one that was cut may lack the end that tells it.

    Args:
        name: the last key that leads to it.
        text: the value, by :func:`appliance.model.upgrade.handmade.settings_diff.shown`.
        named: its name says that it is secret.
    """
    if text in HARMLESS:
        return text
    is_cut = len(text) == MOST_SHOWN and text.endswith("…")
    ends = ("", '"', "@x") if is_cut else ("",)
    forms = [text.removesuffix("…") + end if is_cut else text for end in ends]
    public = [next(iter(redacted({name: form}).values())) for form in forms]
    if named or (is_cut and public != forms):
        return marked("value")
    return shown(str(public[0])) if public != forms else text


def _structure(text: str) -> Any:
    """The list or mapping that a text is; None for another, and for one that was cut."""
    if not text.startswith(("[", "{")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
