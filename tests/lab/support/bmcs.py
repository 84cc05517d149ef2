"""BMCs of a lab's nodes as ``lab up --with bmc`` gives them, for as long as a test needs them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from appliance.lab.bmcs import LabBmc
from appliance.lab.layout import BMC_OFFSET
from appliance.lab.machine.bmcs import BmcProcesses
from appliance.lab.site.site import LabSite as MadeSite
from appliance.lab.site.sites import LabSiteFiles
from tests.lab.conftest import LabSite


@contextmanager
def bmcs_of(lab: LabSite, shorts: Sequence[str]) -> Iterator[str]:
    """A BMC for each node, in the inventory and in the vault; their password."""
    directory, processes = lab.directory, BmcProcesses()
    bmcs = tuple(
        LabBmc(lab.node(short), IPv4Address(lab.address(short)) + BMC_OFFSET) for short in shorts
    )
    files = LabSiteFiles(_no_site)
    network = IPv4Network(f"{lab.address(shorts[0])}/24", strict=False)
    with as_it_was(lab):
        logins = files.give_bmcs(directory, bmcs, processes.certificates(directory, bmcs))
        assert processes.start(lab.name, network, directory, bmcs, logins)
        yield logins[lab.node(shorts[0])].password


@contextmanager
def as_it_was(lab: LabSite) -> Iterator[None]:
    """Whatever BMCs the block gives the lab end with it, and its site has none of them."""
    kept = [
        *sorted((lab.directory / "host_vars").glob("*.yml")),
        lab.directory / "group_vars/all/vault.yml",
    ]
    before = {path: path.read_text() for path in kept}
    try:
        yield
    finally:
        BmcProcesses().stop(lab.name)
        for path, text in before.items():
            path.write_text(text)


def _no_site(_directory: Path, _site: MadeSite) -> None:
    raise AssertionError("the lab has a site")
