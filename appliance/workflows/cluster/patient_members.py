"""Node objects, written again for a while where no API server answers.

While a control-plane node starts or is upgraded, its API server restarts: one request without an
answer is no fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from appliance.workflows.cluster.patient_drain import ask_patiently

if TYPE_CHECKING:
    from appliance.model.state.cluster.cluster import ClusterNode
    from appliance.model.state.nodes.node_metadata import NodeMetadata
    from appliance.workflows.session.ports import Clock, Members


class PatientMembers:
    """The same requests as a Members'; each that may pass is repeated for up to 90 s."""

    def __init__(self, members: Members, clock: Clock) -> None:
        self._members = members
        self._clock = clock

    def put_back(self, node: ClusterNode, kept: NodeMetadata) -> None:
        """Restore the saved metadata of an earlier Node object."""
        ask_patiently(self._clock, lambda: self._members.put_back(node, kept))

    def delete(self, name: str) -> None:
        """Delete a Node object; one that is not there is no error."""
        ask_patiently(self._clock, lambda: self._members.delete(name))

    def annotate(self, names: Sequence[str], key: str, value: str | None) -> None:
        """Write an annotation on Node objects; None removes it."""
        ask_patiently(self._clock, lambda: self._members.annotate(names, key, value))
