"""Say which nodes are lost, and what hangs on them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from appliance.errors import ApplianceError
from appliance.model.cluster import Cluster
from appliance.model.loss import Loss, losses
from appliance.model.maintenance import away

if TYPE_CHECKING:
    from appliance.cli.connected import Connected
    from appliance.model.observation import Look
    from appliance.model.postconditions import Observed


def find_losses(connected: Connected, observed: Observed, look: Look) -> tuple[Loss, ...]:
    """The lost nodes; the API is asked for more only when a node is silent or not Ready."""
    cluster = observed.cluster
    if not isinstance(cluster, Cluster):
        return ()
    unreachable = {fault.node for fault in look.faults} & cluster.nodes.keys()
    planned = {name for name, mark in away(cluster).items() if not mark.lost}
    silent = unreachable | {name for name, node in cluster.nodes.items() if not node.ready}
    if not silent - planned:
        return ()
    from appliance.adapters.kubernetes_loss import read_tenancy

    try:
        return losses(read_tenancy(connected.cluster), unreachable, planned)
    except ApplianceError as error:
        click.echo(f"warning: {error.message}", err=True)
        return ()


def show_losses(found: Sequence[Loss], marked: Collection[str] = ()) -> None:
    """One line a fact, each with the node's name; ``marked`` are in maintenance already."""
    for loss in found:
        for sentence in loss.sentences():
            click.echo(f"lost: {loss.node}: {sentence}")
        if loss.node in marked:
            hint = f"if it never comes back: appliance node remove {loss.node}"
        else:
            hint = f"if it will not come back soon: appliance node maintain {loss.node} --lost"
        click.echo(f"   hint: {hint}")


def losses_as_json(found: Sequence[Loss]) -> list[dict[str, Any]]:
    """The same as plain data; the keys are a contract."""
    return [asdict(loss) for loss in found]
