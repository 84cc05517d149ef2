"""What the GPU stack is to be: what the bundle has of it, and how the site wants it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from appliance.model.components.gpu.driver import bundled_driver, image_driver
from appliance.model.components.gpu.in_turn import restarts_docker
from appliance.model.components.gpu.operator import chart_of

if TYPE_CHECKING:
    from appliance.model.bundle.manifest import BundleManifest
    from appliance.model.state.desired import Desired


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
        waits: operands stay as they are until their node is empty (``components.gpu.in_turn``).
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
        waits=restarts_docker(desired),
    )


def _driver(manifest: BundleManifest, mode: str) -> tuple[str, str]:
    """Version of the driver, and of its fabric manager: the driver's image brings its own."""
    if mode == "container":
        version = image_driver(manifest)
        return version, version
    bundled = bundled_driver(manifest) if mode == "host" else None
    return (bundled.version, bundled.fabric_manager or "") if bundled else ("", "")
