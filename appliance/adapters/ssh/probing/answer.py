"""What a node's probe answered, as facts or as a fault; a hostile answer is the node's fault.

What must not be here: the call itself (:mod:`appliance.adapters.ssh.nodes`).
"""

from __future__ import annotations

import time

from appliance.adapters.ssh.call import Answer, last_line
from appliance.model.node.fencing import DEAD
from appliance.model.site.settings import Node, Site
from appliance.model.site.ssh import ssh_command
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.facts.reader import NotFacts, read_facts
from appliance.model.state.observed import Fault


def facts_of(site: Site, node: Node, answer: Answer) -> NodeFacts | Fault:
    """The node's facts, received now; else why there are none.

    Args:
        site: for the commands of the hints.
        node: that answered.
        answer: of its probe.
    """
    if answer.code or not answer.output.strip():
        output = last_line(answer.errors or answer.output)
        python = site.settings.ssh.python
        return Fault(
            node.name,
            f"{node.name}: the probe exited with {answer.code}: {output or 'no output'}",
            f"check its Python: {ssh_command(site, node, f'{python} --version')}",
            answers=True,
            logged_in=True,
        )
    try:
        return read_facts(answer.output, received_at=time.time())
    except NotFacts as error:
        return Fault(
            node.name,
            f"{node.name}: the output of its probe is not valid: {error}",
            f"check the machine: {ssh_command(site, node, 'uptime')}; to remove a "
            f"worker that is not trusted any more: appliance node remove {node.name} {DEAD}",
            answers=True,
            deceives=True,
            logged_in=True,
        )
