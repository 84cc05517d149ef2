"""Whether an upgrade began on a control-plane node, by the kubelet that it keeps from before.

What must not be here: what else says that (:mod:`appliance.model.upgrade.moves.drop`).
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final

from appliance.errors import ApplianceError
from appliance.model.upgrade.evidence import Silence

if TYPE_CHECKING:
    from appliance.adapters.ssh.nodes import SshNodes
    from appliance.model.site.settings import Node

# As the module kubelet_before of the role kubernetes_upgrade has it.
STATE: Final = "/var/lib/appliance"
KEPT: Final = "kubelet-before"
SECONDS: Final = 30
_UPGRADE: Final = re.compile(r"[0-9A-Za-z]{1,40}")


def began_on(nodes: SshNodes, node: Node, upgrade: str, state: str = STATE) -> bool | Silence:
    """Whether the node has a folder of this upgrade; no answer is no "no".

    Args:
        nodes: SSH to the control plane.
        node: a control-plane node.
        upgrade: the word for the upgrade; it comes from an annotation.
        state: the folder of what the tool keeps on a node, which every member has.
    """
    if not _UPGRADE.fullmatch(upgrade):
        return Silence(f"{node.name}: the upgrade has no word by which it is known")
    # A folder that is absent is no failure here; one that cannot be read is.
    command = ("find", "-L", state, "-maxdepth", "2", "-path", f"{state}/{KEPT}/*-{upgrade}")
    try:
        answer = nodes.run_as_root(node, shlex.join(command), timeout=SECONDS)
    except ApplianceError as error:
        return Silence(error.message)
    if answer.code != 0:
        return Silence(f"{node.name}: {answer.errors.strip()[-300:] or 'no answer'}")
    return bool(answer.output.strip())
