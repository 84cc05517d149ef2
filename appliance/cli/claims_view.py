"""Say what Node objects claim that the documents on the control-plane nodes do not bear out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from appliance.errors import ApplianceError
from appliance.model.accepted import doubts_of
from appliance.model.cluster import Cluster
from appliance.model.maintenance import away
from appliance.model.maintenance_claims import claims_of

if TYPE_CHECKING:
    from appliance.cli.connected import Connected
    from appliance.model.postconditions import Observed


@dataclass(frozen=True)
class Doubt:
    """One thing that a Node object says and that is not simply believed."""

    node: str
    text: str
    hint: str


def recorded_maintenance(connected: Connected, observed: Observed) -> frozenset[str] | None:
    """The nodes of whose maintenance something is kept; None where nobody could be asked."""
    from appliance.workflows.maintenance_records import recorded

    marks = away(observed.cluster)
    if not marks:
        return frozenset()
    try:
        return recorded(connected.archive, marks)
    except ApplianceError as error:
        click.echo(f"warning: nobody can tell who began a maintenance: {error.message}", err=True)
        return None


def find_doubts(connected: Connected, observed: Observed) -> tuple[Doubt, ...]:
    """What is in doubt; the control-plane nodes are asked where there is a cluster."""
    cluster = observed.cluster
    if not isinstance(cluster, Cluster):
        return ()
    from appliance.workflows.passports import read_passports

    claims = claims_of(cluster, recorded_maintenance(connected, observed))
    found = [Doubt(c.node, c.sentence(), c.hint()) for c in claims if c.is_doubtful]
    try:
        passports = read_passports(connected.archive)
    except ApplianceError as error:
        click.echo(f"warning: no passport could be read: {error.message}", err=True)
        passports = {}
    for name, accepted in doubts_of(cluster.nodes, passports).items():
        found.append(Doubt(name, accepted.doubt, accepted.hint))
    return tuple(found)


def show_doubts(doubts: Sequence[Doubt]) -> None:
    """Two lines each: what is said, and what to do about it."""
    for doubt in doubts:
        click.echo(f"doubtful: {doubt.node}: {doubt.text}")
        click.echo(f"   hint: {doubt.hint}")


def doubts_as_json(doubts: Sequence[Doubt]) -> list[dict[str, str]]:
    """The same as plain data; the keys are a contract."""
    return [asdict(doubt) for doubt in doubts]
