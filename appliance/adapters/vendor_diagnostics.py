"""Run the customer's own copy of the vendor's diagnostics on a control-plane node.

It arrives on standard input in a private folder, runs as root with the cluster's own kubeconfig,
and the folder is removed. The tool makes its namespace and DaemonSet itself and takes them down
again; when it does not come to its end, it is asked to, with ``-clean``.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

from appliance.adapters.ssh_call import last_line
from appliance.errors import NodeUnreachable, NotHealthy, Refused
from appliance.model.vendor_diagnostics import VendorReport, parse

if TYPE_CHECKING:
    from appliance.adapters.ssh import SshNodes
    from appliance.model.site import Site

SECONDS: Final = 480
IMAGE: Final = "preinstall-diagnostics"
_SCRIPT = """
umask 077; d=$(mktemp -d) && trap 'rm -rf "$d"' EXIT && cat >"$d/tool" && chmod 700 "$d/tool" \
  || exit 125
if [ "$(id -u)" = 0 ]; then s=; else s='sudo -n'; fi
cd "$d" || exit 125
run() {{
  $s env KUBECONFIG=/etc/kubernetes/admin.conf timeout "$1" "$d/tool" {options} $2 </dev/null
}}
run {seconds} '' 2>&1; code=$?
[ $code = 124 ] && run 60 -clean >/dev/null 2>&1
exit $code
"""


def run_vendor_diagnostics(
    site: Site, nodes: SshNodes, tool: Path, image: str | None = None
) -> VendorReport:
    """Carry the tool to the first control-plane node, run it, and read what it says.

    Args:
        site: whose backend name and registry it is told.
        nodes: SSH to them.
        tool: the binary on the control host.
        image: the image its pods run, as the site's registry has it; None: its usual name there.

    Raises:
        Refused: the file is no program.
        NotHealthy: it said nothing that can be read.
    """
    content = tool.read_bytes()
    if content[:4] != b"\x7fELF" and content[:2] != b"#!":
        raise Refused(
            f"{tool} is no program for Linux",
            hint="give the file preinstall-diagnostics-linux-amd64 of the vendor, version 2.1 to "
            "2.4",
        )
    node = site.control_plane[0]
    registry = site.settings.registry
    words = ["-domain", site.runai_domain, "-registry", f"https://{registry}"]
    words += ["-image", image or f"{registry}/{IMAGE}", "-output", "report"]
    script = _SCRIPT.format(options=shlex.join(words), seconds=SECONDS)
    answer = nodes.run(node, f"sh -c {shlex.quote(script)}", stdin=content, timeout=SECONDS + 90)
    report = parse(answer.output)
    if answer.code == 125:
        raise NodeUnreachable(f"{node.name}: no room for the tool: {last_line(answer.errors)}")
    if not report.tests:
        said = last_line(answer.output or answer.errors)
        raise NotHealthy(
            f"{node.name}: {tool.name} ended with code {answer.code} and said nothing that can be "
            f"read: {said or 'nothing at all'}",
            hint=f"is it version 2.1 to 2.4, and is its image in {registry}? Give its name with "
            "--vendor-diagnostics-image",
        )
    return report
