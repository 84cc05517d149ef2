"""What makes the installation of a package fail late, on a node that is emptied already."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from appliance.model.state.plan import Refusal

if TYPE_CHECKING:
    from appliance.model.patch.node import NodePatch
    from appliance.model.patch.state import NodeState

CHECK: Final = "packages"
# Kind of GRUB -> the packages that install it on the disks that debconf names.
_GRUB: Final = {
    "pc": ("grub-pc",),
    "efi": ("grub-efi-amd64", "grub-efi-amd64-signed", "shim-signed"),
}


def installing_faults(state: NodeState, patch: NodePatch) -> Iterator[Refusal]:
    """One refusal for each thing that would fail in the middle of the installation."""
    changed = [change.name for change in patch.changes]
    if twice := [name for name in changed if name in state.foreign]:
        yield Refusal(
            state.node,
            CHECK,
            f"{', '.join(twice)} of two architectures",
            "packages of the machine's own architecture only: the bundle has no others, and both "
            "must have one version",
            f"remove the others: appliance node ssh {state.node} -- sudo apt-get remove "
            f"{twice[0]}:i386; or put the package on hold, and it stays",
        )
    for kind, names in _GRUB.items():
        disks = state.lost_disks.get(kind, ())
        due = next((name for name in names if name in changed), "")
        if disks and due:
            yield Refusal(
                state.node,
                CHECK,
                f"{due} is to be installed on {', '.join(disks)}, which is absent",
                "the disk that the machine boots from",
                f"name it: appliance node ssh {state.node} -- sudo dpkg-reconfigure {due}; or put "
                "the package on hold, and it stays",
            )
