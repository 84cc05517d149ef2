"""When join tokens end, asked of kubeadm on a control-plane node; the tokens stay there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from appliance.adapters.ssh.call import last_line
from appliance.errors import NodeUnreachable

if TYPE_CHECKING:
    from appliance.adapters.ssh.nodes import SshNodes
    from appliance.model.site.settings import Node

_SECONDS: Final = 20
# Of each token kubeadm prints this field alone. Until 1.24 the long option has another name.
_SCRIPT: Final = (
    f"timeout {_SECONDS} kubeadm --kubeconfig /etc/kubernetes/admin.conf token list "
    """-o 'jsonpath={.expires}{"\\n"}'"""
)
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:Z|[+-]\d\d:\d\d)")
_MOST: Final = 100
# What kubeadm prints below its reason.
_TRACE: Final = re.compile(r"^To see the stack trace of this error.*$", re.M)


def read_join_tokens(nodes: SshNodes, asked: Sequence[Node]) -> tuple[tuple[str, ...], str]:
    """The moments at which they end; and why those are unknown, or an empty string."""
    why = "no control-plane node answers"
    for node in asked:
        try:
            answer = nodes.run_as_root(node, _SCRIPT, timeout=_SECONDS + 5)
        except NodeUnreachable as error:
            why = error.message
            continue
        if answer.code == 0:
            found = [line.strip() for line in answer.output.splitlines()]
            return tuple(line for line in found if _MOMENT.fullmatch(line))[:_MOST], ""
        told = last_line(_TRACE.sub("", answer.errors)) or f"exit code {answer.code}"
        why = f"{node.name}: kubeadm: {told}"
    return (), why
