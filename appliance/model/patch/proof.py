"""What must be observed of a patched node before it is given back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from appliance.model.patch.node import plan_node
from appliance.model.patch.state import NodeState, NoState

if TYPE_CHECKING:
    from appliance.model.bundle.manifest import BundleManifest
    from appliance.model.patch.drivers import GpuNode
    from appliance.model.patch.node import NodePatch


def open_points(
    patch: NodePatch,
    before: NodeState,
    now: NodeState | NoState | None,
    manifest: BundleManifest,
    gpu: GpuNode | None,
) -> tuple[str, ...]:
    """Why a patch of a node is not done yet; empty when it is.

    Args:
        patch: what was to change.
        before: what the node said when that was planned.
        now: what it says.
        manifest: of the bundle.
        gpu: of a node with GPUs; None: it has none.
    """
    if not isinstance(now, NodeState):
        return (now.reason if now is not None else f"{patch.node}: no answer",)
    return tuple(f"{patch.node}: {text}" for text in _open(patch, before, now, manifest, gpu))


def _open(
    patch: NodePatch,
    before: NodeState,
    now: NodeState,
    manifest: BundleManifest,
    gpu: GpuNode | None,
) -> Iterator[str]:
    for change in patch.changes:
        seen = now.packages.get(change.name)
        if seen != change.after:
            yield f"{change.name} is {seen or 'absent'}, not {change.after}"
    for name in sorted(before.held):
        if now.packages.get(name) != before.packages.get(name):
            yield f"{name} was on hold, and changed to {now.packages.get(name) or 'nothing'}"
    left = plan_node(now, manifest, gpu=gpu)
    if left.repair:
        yield f"dpkg left half installed: {', '.join(now.half) or 'see dpkg --audit'}"
    yield from (*left.reboot, *(f"{unit} still uses a replaced file" for unit in left.owed))
    if patch.reboot:
        yield from _boot(patch, before, now)


def _boot(patch: NodePatch, before: NodeState, now: NodeState) -> Iterator[str]:
    if now.boot == before.boot:
        yield "it did not boot"
    if now.kernel != patch.next_kernel:
        yield f"kernel {now.kernel} runs, not {patch.next_kernel}"


def newly_kept(before: NodeState, now: NodeState) -> tuple[str, ...]:
    """The configuration files that stayed as they were, with the package's own beside them."""
    found = []
    for path, when in sorted(now.kept_files.items()):
        if before.kept_files.get(path) != when:
            own = path.removesuffix(".dpkg-dist").removesuffix(".ucf-dist")
            found.append(f"{now.node}: kept {own}; the package's own is {path}")
    return tuple(found)
