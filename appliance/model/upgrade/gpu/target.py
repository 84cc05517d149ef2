"""What the GPU stack is to be: what the bundle has of it, and how the site wants it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from appliance.model.components.gpu.driver import bundled_driver, image_driver
from appliance.model.components.gpu.operator import chart_of, merged, operator_values
from appliance.model.state.certificates import values_digest

if TYPE_CHECKING:
    from appliance.model.bundle.manifest import BundleManifest
    from appliance.model.state.desired import Desired

# With it a changed pod of an operand is made anew only once the old one is deleted. Source:
# gpu-operator/gpu-driver-upgrades.rst of NVIDIA/cloud-native-docs.
ON_DELETE: Final[dict[str, Any]] = {"daemonsets": {"updateStrategy": "OnDelete"}}


@dataclass(frozen=True)
class Target:
    """The GPU stack of a bundle.

    Attributes:
        release: of the bundle.
        operator: version of the operator's chart, without a v; empty: the bundle has none.
        chart_sha256: of that chart.
        mode: where the driver is: ``host``, ``container`` or ``preinstalled``.
        driver: its version, such as ``535.183.06``; empty: the bundle has none for this mode, or
            the driver is the site's own.
        fabric_manager: version of the fabric manager in the bundle; empty: it has none.
        waits: operands stay as they are until their node is empty (:func:`node_by_node`).
    """

    release: str
    operator: str
    chart_sha256: str
    mode: str
    driver: str
    fabric_manager: str = ""
    waits: bool = False

    @property
    def words(self) -> str:
        """The target in words."""
        driver = f", driver {self.driver}" if self.driver else ""
        return f"GPU Operator {self.operator}{driver}"


def target_of(desired: Desired) -> Target | None:
    """The GPU stack that the bundle has for this site; None without a bundle or without GPUs."""
    manifest, wanted = desired.manifest, desired.site.settings.gpu
    if manifest is None or wanted is None:
        return None
    chart = chart_of(manifest)
    driver, manager = _driver(manifest, wanted.driver)
    return Target(
        manifest.release,
        chart.version.removeprefix("v") if chart else "",
        chart.sha256 if chart else "",
        wanted.driver,
        driver,
        manager,
        waits=_restarts_docker(desired),
    )


def _driver(manifest: BundleManifest, mode: str) -> tuple[str, str]:
    """Version of the driver, and of its fabric manager: the driver's image brings its own."""
    if mode == "container":
        version = image_driver(manifest)
        return version, version
    bundled = bundled_driver(manifest) if mode == "host" else None
    return (bundled.version, bundled.fabric_manager or "") if bundled else ("", "")


def node_by_node(desired: Desired) -> Desired:
    """The same site, whose operands stay as they are until their pods are deleted.

    The operator's toolkit restarts Docker whenever it starts, and a driver that is replaced takes
    the GPUs from running pods. So nothing may move before its node is empty.
    """
    settings = desired.site.settings
    if settings.gpu is None or not _restarts_docker(desired):
        return desired
    gpu = settings.gpu.model_copy(update={"values": merged(settings.gpu.values, ON_DELETE)})
    changed = settings.model_copy(update={"gpu": gpu})
    return replace(desired, site=replace(desired.site, settings=changed))


def _restarts_docker(desired: Desired) -> bool:
    """Whether an operand would take something from running pods: the toolkit, or the driver."""
    manifest = desired.manifest
    values = operator_values(desired, manifest) if manifest else {}
    return any((values.get(part) or {}).get("enabled") for part in ("toolkit", "driver"))


def digest_of_values(desired: Desired) -> str:
    """The digest that the operator's release carries once it has this site's values."""
    manifest = desired.manifest
    return values_digest(operator_values(desired, manifest)) if manifest else ""
