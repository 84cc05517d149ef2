"""Who is evicted from a node, and by whom that is missed: the pods of one user together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from appliance.cli.commands.node.forecast_view import forecast_as_json
from appliance.cli.screen.terminal import one_line

if TYPE_CHECKING:
    from appliance.model.node.drain import Concern, Forecast
    from appliance.model.state.cluster.pods import PodOnNode

# Pods named of one user, or of the rest; more are counted.
MOST_NAMED: Final = 5
# As long as Kubernetes lets the value of a label be; nothing longer is one.
_LETTERS: Final = 63


def evicted_lines(foreseen: Forecast) -> Iterator[str]:
    """The pods of each user and project, and then those of neither."""
    groups = _by_owner(foreseen)
    if not groups:
        yield f"evicts from {foreseen.node}: no pod"
    for (project, user), pods in groups.items():
        names = _named(pods)
        if not (project or user):
            yield f"evicts from {foreseen.node}: {names}"
            continue
        count = f"{len(pods)} pod{'' if len(pods) == 1 else 's'}"
        of = f" of {user}" if user else ""
        within = f" in project {project}" if project else ""
        yield f"evicts from {foreseen.node}: {count}{of}{within}: {names}"


def concern_lines(foreseen: Forecast) -> Iterator[str]:
    """What happens to pods; those to which the same happens together, unless they end for good."""
    groups: dict[tuple[str, ...], list[Concern]] = defaultdict(list)
    for one in foreseen.concerns:
        if not one.quorum:
            passes = one.severity == "interrupts" or one.workload
            groups[one.severity, one.text, "" if passes else one.about].append(one)
    for (severity, text, _), alike in groups.items():
        yield f"{severity}: {_listed([one.about for one in alike])}: {text}"


def waiting_lines(foreseen: Forecast) -> Iterator[str]:
    """Which of the pods will wait for a GPU."""
    if foreseen.waiting:
        gpus = sum(pod.gpus for pod in foreseen.waiting)
        yield f"wait for {gpus} GPUs that no other node has free: {_named(foreseen.waiting)}"


def eviction_as_json(foreseen: Forecast) -> dict[str, Any]:
    """What ``node maintain`` tells as data, and whose the pods are; etcd's quorum comes back."""
    kept = tuple(one for one in foreseen.concerns if not one.quorum)
    return {
        **forecast_as_json(replace(foreseen, concerns=kept)),
        "waiting": [pod.where for pod in foreseen.waiting],
        "whose": [
            {"project": project, "user": user, "pods": [pod.where for pod in pods]}
            for (project, user), pods in _by_owner(foreseen).items()
        ],
    }


def _by_owner(foreseen: Forecast) -> dict[tuple[str, str], list[PodOnNode]]:
    found: dict[tuple[str, str], list[PodOnNode]] = defaultdict(list)
    for pod in foreseen.evicted:
        found[_label(pod.project), _label(pod.user)].append(pod)
    return found


def _label(text: str) -> str:
    return one_line(text[:_LETTERS])


def _named(pods: Sequence[PodOnNode]) -> str:
    return _listed([pod.where for pod in pods])


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    listed = ", ".join(one_line(name) for name in names[:MOST_NAMED])
    return listed + (f" and {more} more" if more > 0 else "")
