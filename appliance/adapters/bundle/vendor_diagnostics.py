"""Runs the customer's copy of the vendor's diagnostics on a control-plane node.

Its own file is kept in the site's state: the vendor's support asks for it.

The tool is sent on standard input to a private folder, runs as root with the cluster's kubeconfig,
and the folder is removed. The tool creates and removes its namespace and DaemonSet; if it times
out, it is called again with ``-clean``.
"""

from __future__ import annotations

import base64
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from appliance.adapters.local.state_files import make_folder, replace_file
from appliance.adapters.ssh.call import last_line
from appliance.errors import NodeUnreachable, NotHealthy, Refused
from appliance.model.bundle.vendor.diagnostics import VendorReport, parse

if TYPE_CHECKING:
    from appliance.adapters.ssh.nodes import SshNodes
    from appliance.model.site.settings import Site

SECONDS: Final = 480
IMAGE: Final = "preinstall-diagnostics"
# The vendor's name of the file that its support asks for.
FILE: Final = "runai-preinstall-diagnostics.txt"
MOST_BYTES: Final = 8_000_000
_MARK: Final = "--- the file of the tool, in base64 ---"
_SCRIPT = """
umask 077; d=$(mktemp -d) && trap 'rm -rf "$d"' EXIT && cat >"$d/tool" && chmod 700 "$d/tool" \
  || exit 125
cd "$d" || exit 125
run() {{
  KUBECONFIG=/etc/kubernetes/admin.conf timeout "$1" "$d/tool" {options} $2 </dev/null
}}
run {seconds} '' 2>&1; code=$?
[ $code = 124 ] && run 60 -clean >/dev/null 2>&1
printf '\n%s\n' '{mark}'
[ -f {file} ] && head -c {most} {file} | base64 -w0
exit $code
"""


def run_vendor_diagnostics(
    site: Site, nodes: SshNodes, tool: Path, image: str | None = None
) -> VendorReport:
    """Send the tool to the first control-plane node, run it, and read its report.

    Args:
        site: the site; the tool gets its backend name and registry.
        nodes: SSH to the nodes.
        tool: the binary on the control host.
        image: the image of its pods in the site's registry; None for its usual name.

    Raises:
        Refused: the file is not a program.
        NotHealthy: the tool printed no readable report.
    """
    content = tool.read_bytes()
    if content[:4] != b"\x7fELF" and content[:2] != b"#!":
        raise Refused(
            f"{tool} is not a Linux program",
            hint="give the file preinstall-diagnostics-linux-amd64 of the vendor, version 2.1 to "
            "2.4",
        )
    node = site.control_plane[0]
    registry = site.settings.registry
    words = ["-domain", site.runai_domain, "-registry", f"https://{registry}"]
    words += ["-image", image or f"{registry}/{IMAGE}", "-output", FILE]
    script = _SCRIPT.format(
        options=shlex.join(words), seconds=SECONDS, mark=_MARK, file=FILE, most=MOST_BYTES
    )
    answer = nodes.run_as_root(node, script, stdin=content, timeout=SECONDS + 90)
    said, _, packed = answer.output.rpartition(f"\n{_MARK}\n")
    said = said if _MARK in answer.output else answer.output
    report = parse(said)
    if answer.code == 125:
        raise NodeUnreachable(f"{node.name}: could not store the tool: {last_line(answer.errors)}")
    if not report.tests:
        output = last_line(said or answer.errors)
        raise NotHealthy(
            f"{node.name}: {tool.name} exited with {answer.code} and printed no report: "
            f"{output or 'no output'}",
            hint=f"check that it is version 2.1 to 2.4 and that its image is in {registry}; give "
            "the image's name with --vendor-diagnostics-image",
        )
    return replace(report, file=_kept(site, said, packed if _MARK in answer.output else ""))


def _kept(site: Site, said: str, packed: str) -> str:
    """Keep the tool's file, or what it printed where it wrote none; return the path."""
    try:
        written = base64.b64decode(packed, validate=True).decode("utf-8", "replace")
    except ValueError:
        written = ""
    path = site.state_directory / "reports" / FILE
    make_folder(path.parent)
    replace_file(path, written or said)
    return str(path)
