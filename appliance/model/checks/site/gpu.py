"""Checks of a site's GPU settings: the operator's version, and the workers that are opted out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from appliance.model.bundle.gpu_operator_versions import REFUSED_BECAUSE, is_refused
from appliance.model.site.files.diagnostics import SiteFault, did_you_mean
from appliance.model.site.files.draft import Draft, KnownContent
from appliance.model.site.groups import GPU_WORKERS


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


GPU_CHECKS: Final[tuple[Callable[[Draft, KnownContent], Iterator[SiteFault]], ...]] = (
    operator_is_taken_by_runai,
    opted_out_are_workers_with_gpus,
)
