"""Operands that would take something from running pods: they wait until their node is empty."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from appliance.model.components.gpu.operator import merged, operator_values
from appliance.model.state.certificates import values_digest

if TYPE_CHECKING:
    from appliance.model.state.desired import Desired

# With it a changed pod of an operand is made anew only once the old one is deleted. Source:
# gpu-operator/gpu-driver-upgrades.rst of NVIDIA/cloud-native-docs.
ON_DELETE: Final[dict[str, Any]] = {"daemonsets": {"updateStrategy": "OnDelete"}}


def restarts_docker(desired: Desired) -> bool:
    """Whether an operand would take something from running pods: the toolkit, or the driver."""
    manifest = desired.manifest
    values = operator_values(desired, manifest) if manifest else {}
    return any((values.get(part) or {}).get("enabled") for part in ("toolkit", "driver"))


def node_by_node(desired: Desired) -> Desired:
    """The same site, whose operands stay as they are until their pods are deleted.

    The operator's toolkit restarts Docker whenever it starts, and a driver that is replaced takes
    the GPUs from running pods. So nothing may move before its node is empty.
    """
    settings = desired.site.settings
    if settings.gpu is None or not restarts_docker(desired):
        return desired
    gpu = settings.gpu.model_copy(update={"values": merged(settings.gpu.values, ON_DELETE)})
    changed = settings.model_copy(update={"gpu": gpu})
    return replace(desired, site=replace(desired.site, settings=changed))


def digest_of_values(desired: Desired) -> str:
    """The digest that the operator's release carries once it has this site's values."""
    manifest = desired.manifest
    return values_digest(operator_values(desired, manifest)) if manifest else ""


def is_unfinished(desired: Desired, values_sha256: str | None) -> bool:
    """Whether a release has the values of the middle of an upgrade: operands wait for nodes."""
    middle = digest_of_values(node_by_node(desired))
    return bool(middle) and values_sha256 == middle and middle != digest_of_values(desired)
