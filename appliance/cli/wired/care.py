"""The adapters of ``cluster cleanup``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from appliance.cli.wiring import Wiring
    from appliance.workflows.cluster.cleaning.ports import Care


def care_ports(connected: Wiring) -> Care:
    """The ports of one site; nothing is connected to here."""
    from appliance.adapters.care.backups import kept_backups
    from appliance.adapters.care.etcd import EtcdCare
    from appliance.adapters.care.runs import RunFiles
    from appliance.adapters.care.supply import SiteSupply
    from appliance.adapters.kubernetes.pod_images import read_pod_images
    from appliance.cli.wired.backups import store_of
    from appliance.workflows.cluster.cleaning.ports import Care

    site, python = connected.site, connected.site.settings.ssh.python
    return Care(
        etcd=EtcdCare(connected.nodes, python),
        supply=SiteSupply(connected.nodes, python),
        runs=RunFiles(site.state_directory),
        pod_images=partial(read_pod_images, connected.cluster),
        backups=partial(kept_backups, partial(store_of, site)),
    )
