"""Commands of runbooks that no lab types, each with the reason; tests elsewhere are named."""

from __future__ import annotations

from collections.abc import Mapping

_BY_HAND = "a procedure by hand: the commands that do it are typed by the page recover-the-cluster"
_NO_UPDATES = (
    "a lab's nodes come from the newest packages, so none is older than an archive's; the role "
    "patches a node from an archive of its own in molecule/node_patch_default"
)
_NO_BIOS = (
    "a lab's BMC has no BIOS: tests/cli/test_hardware_bios.py types it, and "
    "tests/standins/test_bmc_bios.py drives it"
)
_NO_ACCOUNT = (
    "a lab's BMC has no account to change: tests/cli/test_hardware_bmc_password.py types it, and "
    "tests/standins/test_bmc_accounts.py drives it"
)
_NO_HARDWARE = (
    "a container has no hardware to learn from, and is refused: tests/cli/test_hardware.py types it"
)
_NO_LOSS = (
    "a lab may be founded anew without the option, so only tests/cli/test_install.py types it"
)

# Page -> command -> why no lab can have it.
UNTYPED: Mapping[str, Mapping[str, str]] = {
    "back-up-the-control-plane": {
        "appliance node rejoin cp2": _BY_HAND,
        "appliance node rejoin cp3": _BY_HAND,
    },
    "patch-the-nodes": {
        "appliance bundle build --release k8s-1.23.5-r1 --os ubuntu-20.04 "
        "--updates-since 2024-11-01 --installed packages.json --without have.json DIR": _NO_UPDATES,
        "appliance node patch --bundle DIR --site SITE --dry-run": _NO_UPDATES,
        "appliance node patch --bundle DIR --site SITE": _NO_UPDATES,
    },
    "recover-the-cluster": {
        "appliance install --new-cluster --bundle BUNDLE --accept-host-keys --site SITE "
        "--dry-run": _NO_LOSS,
        "appliance install --new-cluster --bundle BUNDLE --accept-host-keys --site SITE": _NO_LOSS,
    },
    "upgrade-that-failed": {
        "appliance node patch --bundle DIR --site SITE --dry-run": _NO_UPDATES,
        "appliance node patch OTHER_NODES --bundle DIR --site SITE": _NO_UPDATES,
    },
    "qualify-hardware": {
        "appliance hardware inspect gpu1 --site SITE --write learnt": _NO_HARDWARE,
        "appliance hardware qualify --site SITE --models learnt --report rack7.html": _NO_HARDWARE,
    },
    "set-the-bios": {
        "appliance hardware bios show gpu1 --search iommu --site SITE": _NO_BIOS,
        "appliance hardware bios show gpu1 --all --output json --site SITE": _NO_BIOS,
        "appliance node maintain gpu1 --site SITE": _NO_BIOS,
        "appliance hardware bios set gpu1 gpu2 --models FOLDER --dry-run --site SITE": _NO_BIOS,
        "appliance hardware bios set gpu1 gpu2 --models FOLDER --site SITE": _NO_BIOS,
        "appliance node return gpu1 --site SITE": _NO_BIOS,
    },
    "change-bmc-passwords": {
        "appliance hardware bmc-password gpu1 gpu2 --dry-run --site SITE": _NO_ACCOUNT,
        "appliance hardware bmc-password gpu1 gpu2 --site SITE": _NO_ACCOUNT,
    },
}
