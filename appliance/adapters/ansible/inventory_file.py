"""The run's inventory for Ansible: references to the vault are its only templates.

Ansible evaluates every string of an inventory as a template, except text marked
``__ansible_unsafe``. The file begins with a tab, which is valid in JSON but not in YAML: if Ansible
cannot read the file as JSON, it tries YAML, where the marks would be plain mappings with trusted
text. What must not be here: the meaning of the variables.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from appliance.errors import ConfigError
from appliance.model.site.vault_ref import VaultRef

MARK: Final = "__ansible_unsafe"
# Ansible treats a mapping with such a key as its own notation.
_RESERVED: Final = "__ansible"
_BRACES: Final = frozenset("{}")
_DEEPEST: Final = 40
_HINT: Final = (
    "correct the value at its source: site.yml of the site, or the bundle, which is copied again "
    "with: appliance install --bundle DIR"
)


def inventory_text(inventory: Mapping[str, Any]) -> str:
    """Serialise an inventory.

    Raises:
        ConfigError: a name or number in it is unsafe or invalid for Ansible.
    """
    marked = _marked(inventory, ())
    return "\t" + json.dumps(marked, indent=1, sort_keys=True, allow_nan=False) + "\n"


def _marked(value: object, where: tuple[str, ...]) -> object:
    if isinstance(value, VaultRef):
        return value.template
    if isinstance(value, str):
        return {MARK: _whole(value)}
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, float) or len(where) > _DEEPEST:
        what = "is not a finite number" if isinstance(value, float) else "is nested too deep"
        raise ConfigError(f"{'.'.join(where[:9])} {what}", hint=_HINT)
    if isinstance(value, Mapping):
        return {
            _name(key, where): _marked(inner, (*where, str(key))) for key, inner in value.items()
        }
    if isinstance(value, Sequence):
        return [_marked(inner, (*where, str(index))) for index, inner in enumerate(value)]
    raise TypeError(f"{'.'.join(where)}: {type(value).__name__}")


def _name(key: object, where: tuple[str, ...]) -> str:
    """A key unchanged: keys cannot be marked, so a key that Ansible could evaluate is refused."""
    if not isinstance(key, str) or key.startswith(_RESERVED) or _BRACES & set(key):
        raise ConfigError(
            f"{key!r} below {'.'.join(where)} is not a plain name: Ansible could evaluate it",
            hint=_HINT,
        )
    return _whole(key)


def _whole(text: str) -> str:
    """The text without lone surrogates, which Ansible cannot read."""
    return text.encode("utf-8", "replace").decode("utf-8")
