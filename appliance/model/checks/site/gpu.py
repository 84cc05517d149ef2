"""Checks of a site's GPU settings: the operator's version, and the workers that are opted out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from appliance.model.bundle.release.gpu_operator_versions import REFUSED_BECAUSE, is_refused
from appliance.model.site.files.diagnostics import SiteFault, did_you_mean
from appliance.model.site.files.draft import Draft, KnownContent
from appliance.model.site.groups import CLUSTER_GROUPS, CONTROL_PLANE, GPU_WORKERS


def operator_is_taken_by_runai(draft: Draft, _known: KnownContent) -> Iterator[SiteFault]:
    """Two lines of the GPU Operator publish a label that Run:ai misreads."""
    if draft.value is None or draft.value.gpu is None or not draft.sound(("gpu", "operator")):
        return
    version = draft.value.gpu.operator
    if version and is_refused(version):
        yield draft.fault(
            ("gpu", "operator"),
            f"GPU Operator {version} is refused: {REFUSED_BECAUSE}",
            "delete the key to get the release's version",
        )


def opted_out_are_workers_with_gpus(draft: Draft, _known: KnownContent) -> Iterator[SiteFault]:
    """Only a worker with GPUs can be left out."""
    if draft.value is None or draft.value.gpu is None or not draft.hosts.groups:
        return
    workers = draft.hosts.members.get(GPU_WORKERS, ())
    for index, name in enumerate(draft.value.gpu.opted_out):
        if name not in workers:
            yield draft.fault(
                ("gpu", "opted_out", index),
                f"{name!r} is not in {GPU_WORKERS}: there is nothing to opt out of",
                did_you_mean(name, workers),
            )


def sharing_workers_have_gpus(draft: Draft, _known: KnownContent) -> Iterator[SiteFault]:
    """Only a worker with GPUs can share them."""
    gpu = draft.value.gpu if draft.value else None
    if gpu is None or gpu.time_slicing is None or not draft.hosts.groups:
        return
    workers = draft.hosts.members.get(GPU_WORKERS, ())
    for index, name in enumerate(gpu.time_slicing.workers):
        if name not in workers:
            yield draft.fault(
                ("gpu", "time_slicing", "workers", index),
                f"{name!r} is not in {GPU_WORKERS}: it has no GPUs to share",
                did_you_mean(name, workers),
            )


def sharing_is_said_once(draft: Draft, _known: KnownContent) -> Iterator[SiteFault]:
    """MIG and time slicing have settings; the chart's own values would contradict them unseen."""
    gpu = draft.value.gpu if draft.value else None
    if gpu is None:
        return
    for setting, chart, key in (
        (gpu.mig_strategy, "mig", "strategy"),
        (gpu.time_slicing, "devicePlugin", "config"),
    ):
        part = gpu.values.get(chart)
        if setting is not None and isinstance(part, Mapping) and key in part:
            name = "mig_strategy" if chart == "mig" else "time_slicing"
            yield draft.fault(
                ("gpu", "values"),
                f"gpu.values has {chart}.{key} beside gpu.{name}",
                "keep one of them",
            )


def gpus_are_asked_for(draft: Draft, known: KnownContent) -> Iterator[SiteFault]:
    """A site with GPUs and without the section would become a cluster without GPUs, unseen."""
    if draft.value is None or "gpu" in draft.document.data or draft.document.broken:
        return
    workers = []
    for name, groups in draft.hosts.groups.items():
        node = draft.nodes[name].checked.value if name in draft.nodes else None
        by_model = node is not None and node.hardware in known.gpu_hardware
        if GPU_WORKERS in groups or (by_model and groups & CLUSTER_GROUPS - {CONTROL_PLANE}):
            workers.append(name)
    if workers:
        yield draft.fault(
            ("gpu",),
            f"{', '.join(workers)} {'has' if len(workers) == 1 else 'have'} GPUs, but the section "
            "gpu is absent: pods get no GPUs",
            "write gpu: {driver: host} for the bundle's driver, or gpu: null if that is intended",
        )


GPU_WARNINGS: Final[tuple[Callable[[Draft, KnownContent], Iterator[SiteFault]], ...]] = (
    gpus_are_asked_for,
)
GPU_CHECKS: Final[tuple[Callable[[Draft, KnownContent], Iterator[SiteFault]], ...]] = (
    operator_is_taken_by_runai,
    opted_out_are_workers_with_gpus,
    sharing_workers_have_gpus,
    sharing_is_said_once,
)
