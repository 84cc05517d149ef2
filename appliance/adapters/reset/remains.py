"""Asks machines what they still have of the product, by the survey of role ``node_bare``."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from appliance.adapters.local.shipped import find_content_root
from appliance.adapters.ssh.call import last_line
from appliance.adapters.ssh.node_modules import started
from appliance.errors import NodeUnreachable
from appliance.model.documents.strict_json import Unreadable
from appliance.model.plan.reset.remains import Remains, parse_remains
from appliance.model.site.shared_storage import export_of

if TYPE_CHECKING:
    from appliance.adapters.ssh.nodes import SshNodes
    from appliance.model.site.settings import Node, Site

FOLDER: Final = "roles/node_bare/module_utils"
# In the order in which the last uses the others.
SURVEY: Final = ("bare_files", "bare_places", "bare_survey")
SECONDS: Final = 120
AT_ONCE: Final = 32


def survey() -> bytes:
    """The program that a machine runs."""
    folder = find_content_root() / FOLDER
    sources = [(name, (folder / f"{name}.py").read_text()) for name in SURVEY]
    return started(sources)


class SshRemains:
    """What the machines of one site still have."""

    def __init__(self, site: Site, nodes: SshNodes) -> None:
        self._site = site
        self._nodes = nodes

    def read(self, nodes: Sequence[Node]) -> Mapping[str, Remains | str]:
        """Node -> what it has, or why it did not say."""
        if not nodes:
            return {}
        source = survey()
        with ThreadPoolExecutor(min(len(nodes), AT_ONCE)) as pool:
            found = pool.map(lambda node: self._read(node, source), nodes)
            return dict(zip((n.name for n in nodes), found, strict=True))

    def _read(self, node: Node, source: bytes) -> Remains | str:
        export = export_of(self._site)
        served = export.path if export and export.node == node else ""
        words = [self._site.settings.ssh.python, "-I", "-", served]
        try:
            answer = self._nodes.run_as_root(node, shlex.join(words), stdin=source, timeout=SECONDS)
        except NodeUnreachable as error:
            return error.message
        if answer.code != 0:
            why = last_line(answer.errors) or f"exit {answer.code}"
            return f"{node.name}: it does not say what it has: {why}"
        try:
            return parse_remains(answer.output)
        except Unreadable as error:
            return f"{node.name}: what it says it has is not readable: {error}"
