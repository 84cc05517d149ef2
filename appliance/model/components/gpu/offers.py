"""What pods should be able to request on a node: whole GPUs, slices of them, or MIG devices.

NVIDIA's device plugin offers each GPU once, in one way. With time slicing it offers N times
``nvidia.com/gpu``, or with ``renameByDefault`` N times ``nvidia.com/gpu.shared`` and no
``nvidia.com/gpu``. With MIG strategy ``single`` every MIG device is an ``nvidia.com/gpu``; with
``mixed`` each profile has its own resource.
Sources: see :mod:`appliance.model.state.cluster.gpu_labels`.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from appliance.model.state.cluster.gpu_labels import (
    MIG,
    SHARED,
    WHOLE,
    Devices,
    GpuLabels,
    read_gpu_labels,
)

if TYPE_CHECKING:
    from appliance.model.site.runai_settings import Gpu
    from appliance.model.state.cluster.cluster import ClusterNode
    from appliance.model.state.facts.facts import NodeFacts

NVIDIA: Final = "0x10de"
# GPU instance slices of one GPU, on every model that MIG divides (A30 has four).
MOST_SLICES: Final = 7
UNDIVIDED: Final = "all-disabled"
# So many lines of nvidia-smi -L fit into a container's termination message.
MOST_LISTED: Final = 16


@dataclass(frozen=True)
class Cards:
    """The GPUs of a machine.

    Attributes:
        count: on PCI.
        silent: addresses of those that the driver does not list, while it lists others.
        alike: whether all are of one model.
    """

    count: int
    silent: tuple[str, ...] = ()
    alike: bool = True


@dataclass(frozen=True)
class Sharing:
    """How the site wants the GPUs of one worker to be offered.

    Attributes:
        strategy: of MIG; None: whatever the chart has.
        replicas: by time slicing, 1 without it; None: the site's chart values decide it.
        renamed: whether slices have a resource of their own name.
    """

    strategy: str | None = None
    replicas: int | None = 1
    renamed: bool = False


@dataclass(frozen=True)
class DeviceRequest:
    """What a container of a test pod asks for."""

    resource: str
    count: int


def cards_of(facts: NodeFacts) -> Cards:
    """The GPUs that the probe saw."""
    ours = [gpu for gpu in facts.items("gpus") if gpu.get("vendor_id") == NVIDIA]
    silent = [str(gpu.get("address")) for gpu in ours if not gpu.get("uuid")]
    return Cards(
        len(ours),
        tuple(silent) if len(silent) < len(ours) else (),
        len({gpu.get("device_id") for gpu in ours}) <= 1,
    )


def sharing_of(settings: Gpu, node: str) -> Sharing:
    """What the site asks for on one worker."""
    values = settings.values
    mig = values.get("mig")
    strategy = settings.mig_strategy
    if strategy is None and isinstance(mig, Mapping):
        strategy = mig.get("strategy")
    slicing = settings.time_slicing
    if slicing is not None:
        if slicing.workers and node not in slicing.workers:
            return Sharing(strategy)
        return Sharing(strategy, slicing.replicas, slicing.rename_by_default)
    plugin = values.get("devicePlugin")
    given = isinstance(plugin, Mapping) and "config" in plugin
    return Sharing(strategy, None if given else 1)


def offer_faults(cards: Cards, wish: Sharing, member: ClusterNode) -> Iterator[str]:
    """Say what differs from what pods should be able to request; nothing when all is well."""
    said = read_gpu_labels(member.labels)
    if said.faults:
        # Nothing follows from labels that are not NVIDIA's.
        yield from said.faults
        return
    if cards.silent:
        yield f"NVIDIA's driver does not list every GPU on PCI: not {', '.join(cards.silent)}"
    yield from _mig_faults(wish, said)
    if _is_invalid(said):
        yield (
            "its GPUs differ in MIG mode or profile: strategy single offers none of them; give "
            "all the same nvidia.com/mig.config, or choose strategy mixed"
        )
        return
    yield from _sharing_faults(wish, said)
    yield from _divided_faults(cards, said, member)
    yield from _count_faults(cards, wish, said, member)
    yield from _unhealthy(member)


def requests_for(labels: Mapping[str, str], free: Mapping[str, int]) -> tuple[DeviceRequest, ...]:
    """What a test pod asks for: all that is free, or one slice where devices are shared.

    Args:
        labels: of the Node.
        free: resource -> how many of it no pod has asked for.
    """
    said = read_gpu_labels(labels)
    found = []
    for resource, count in sorted(free.items()):
        devices = said.devices(resource)
        shared = resource.endswith(SHARED) or (devices is not None and devices.times > 1)
        # A plugin may refuse more than one slice for a container (failRequestsGreaterThanOne).
        one = shared or bool(said.faults)
        if count > 0:
            found.append(DeviceRequest(resource, 1 if one else min(count, MOST_LISTED)))
    return tuple(found)


def _is_invalid(said: GpuLabels) -> bool:
    return said.strategy == "single" and said.gpus.product.endswith("-MIG-INVALID")


def _is_divided(said: GpuLabels) -> bool:
    """Whether MIG divides GPUs of the node now."""
    if said.strategy == "single":
        return "-MIG-" in said.gpus.product
    return said.strategy == "mixed" and bool(said.profiles)


def _mig_faults(wish: Sharing, said: GpuLabels) -> Iterator[str]:
    if said.strategy is not None and wish.strategy not in (None, said.strategy):
        yield f"its MIG strategy is {said.strategy}, but the site says {wish.strategy}"
    elif said.strategy is None and wish.strategy in ("single", "mixed"):
        yield (
            f"it has no label nvidia.com/mig.strategy={wish.strategy}: GPU feature discovery has "
            "not labelled it"
        )
    if said.config is None or (said.config_state is None and not said.capable):
        return
    if said.config_state != "success":
        state = said.config_state or "not applied"
        yield f"its MIG configuration {said.config} is {state}"


def _sharing_faults(wish: Sharing, said: GpuLabels) -> Iterator[str]:
    """GPUs that MIG divides are shared by profile, which labels of their own tell."""
    found = said.gpus.replicas
    if wish.replicas is None or found is None or said.strategy == "mixed":
        return
    if said.gpus.times != wish.replicas:
        yield f"each GPU is offered {said.gpus.times} times, but the site says {wish.replicas}"


def _divided_faults(cards: Cards, said: GpuLabels, member: ClusterNode) -> Iterator[str]:
    """Every GPU is divided alike by a configuration ``all-…``: one that is missing shows."""
    if not _is_divided(said) or not cards.count or not cards.alike:
        return
    if said.strategy == "single":
        kinds = {"": said.gpus}
    else:
        if said.gpus.count not in (None, cards.count):
            yield f"{cards.count} GPUs on PCI, but the driver lists {said.gpus.count}"
        kinds = dict(said.profiles) if _is_uniform(said) else {}
        whole = sum(member.devices.get(name, 0) for name in (WHOLE, WHOLE + SHARED))
        yield from _too_many(cards, said, whole // said.gpus.times)
    for profile, devices in kinds.items():
        if devices.count is not None and devices.count % cards.count:
            what = f"MIG devices {profile}".rstrip()
            yield f"{devices.count} {what} on {cards.count} GPUs: not every GPU has as many"


def _too_many(cards: Cards, said: GpuLabels, whole: int) -> Iterator[str]:
    """Whole and divided GPUs are different GPUs."""
    slices = sum((one.count or 0) * (one.slices or 1) for one in said.profiles.values())
    divided = -(-slices // MOST_SLICES)
    if whole + divided > cards.count:
        yield (
            f"{cards.count} GPUs on PCI, but pods can request {whole} whole GPUs beside MIG "
            f"devices of {divided} more"
        )


def _is_uniform(said: GpuLabels) -> bool:
    return bool(said.config and said.config.startswith("all-") and said.config != UNDIVIDED)


def _count_faults(
    cards: Cards, wish: Sharing, said: GpuLabels, member: ClusterNode
) -> Iterator[str]:
    wanted = dict(_wanted(cards, wish, said))
    if _is_divided(said) and said.strategy == "mixed" and not _is_uniform(said):
        # How many GPUs are left whole is the configuration's affair, which no label tells.
        wanted |= {n: c for n, c in member.devices.items() if n.removesuffix(SHARED) == WHOLE}
    for name in sorted({*wanted, *(n for n, count in member.devices.items() if count)}):
        want, found = wanted.get(name, 0), member.devices.get(name, 0)
        if want == found:
            continue
        if name == WHOLE and want == cards.count:
            yield f"{cards.count} GPUs on PCI, but pods can request {found}"
        else:
            yield f"pods can request {found} {name}, but {want} are expected"


def _wanted(cards: Cards, wish: Sharing, said: GpuLabels) -> Iterator[tuple[str, int]]:
    """Resource -> how many of it."""
    if said.strategy == "mixed" and said.profiles:
        for profile, devices in said.profiles.items():
            yield _named(f"{MIG}{profile}", devices), (devices.count or 0) * devices.times
    elif _is_divided(said):
        yield _named(WHOLE, said.gpus), (said.gpus.count or 0) * said.gpus.times
    elif wish.replicas is None:
        yield _named(WHOLE, said.gpus), cards.count * said.gpus.times
    else:
        suffix = SHARED if wish.renamed and wish.replicas > 1 else ""
        yield WHOLE + suffix, cards.count * wish.replicas


def _named(resource: str, devices: Devices) -> str:
    return resource + (SHARED if devices.renamed else "")


def _unhealthy(member: ClusterNode) -> Iterator[str]:
    """The plugin tells the kubelet of every device; only healthy ones can be requested.

    A resource of which none can be requested may be left from before a plugin was replaced.
    """
    for name, count in sorted(member.devices.items()):
        there = member.devices_there.get(name, count)
        if 0 < count < there:
            yield f"{there - count} of {there} {name} are unhealthy: see nvidia-smi on the node"
