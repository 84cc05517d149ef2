"""What a BMC has as discs: by them, commands on two machines see each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appliance.errors import ApplianceError

if TYPE_CHECKING:
    from appliance.workflows.node.maintenance.driving import DrivenBmc


def discs_of(bmc: DrivenBmc) -> tuple[str, ...]:
    """What is inserted as a disc, in words; nothing where the BMC does not tell."""
    try:
        return tuple(one.words() for one in bmc.media() if one.is_taken_disc)
    except ApplianceError:
        return ()
