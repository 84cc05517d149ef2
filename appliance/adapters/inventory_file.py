"""The run's inventory as Ansible reads it: our references to the vault, and else no template.

Ansible trusts every string of an inventory as a template; one marked ``__ansible_unsafe`` is the
text that it is. The text begins with a tab: as JSON it may, as YAML it may not. Ansible tries YAML
on what it cannot read as JSON, and there our marks would be plain mappings with trusted text.
What must not be here: what the variables are.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from appliance.errors import ConfigError
from appliance.model.vault_ref import VaultRef

MARK: Final = "__ansible_unsafe"
# What Ansible takes a mapping with such a key for: its own notation.
_RESERVED: Final = "__ansible"
_BRACES: Final = frozenset("{}")
_DEEPEST: Final = 40
_HINT: Final = (
    "correct it where it comes from: site.yml of the site, or the bundle, which is brought again "
    "with: appliance install --bundle DIR"
)


def inventory_text(inventory: Mapping[str, Any]) -> str:
    """Write an inventory out.

    Raises:
        ConfigError: a name or a number in it is not one that Ansible may be given.
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
        what = "is no number" if isinstance(value, float) else "is nested too deep"
        raise ConfigError(f"{'.'.join(where[:9])} {what}", hint=_HINT)
    if isinstance(value, Mapping):
        return {
            _name(key, where): _marked(inner, (*where, str(key))) for key, inner in value.items()
        }
    if isinstance(value, Sequence):
        return [_marked(inner, (*where, str(index))) for index, inner in enumerate(value)]
    raise TypeError(f"{'.'.join(where)}: {type(value).__name__}")


def _name(key: object, where: tuple[str, ...]) -> str:
    """A key as it is: there is no mark for keys, so one that could be more than a name goes."""
    if not isinstance(key, str) or key.startswith(_RESERVED) or _BRACES & set(key):
        raise ConfigError(
            f"{key!r} below {'.'.join(where)} is not a name that Ansible may be given",
            hint=_HINT,
        )
    return _whole(key)


def _whole(text: str) -> str:
    """Half a character, as a file may hold by mistake, would end Ansible's reading."""
    return text.encode("utf-8", "replace").decode("utf-8")
