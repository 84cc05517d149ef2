"""What a discovery puts into the files of a new site."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from appliance.workflows.site.discover import Discovery
    from appliance.workflows.site.init import SiteInitRequest

_MOST_BYTES: Final = 16384
# Those that ssh itself tries where no key is named, in its order.
_DEFAULT_KEYS: Final = ("~/.ssh/id_rsa", "~/.ssh/id_ecdsa", "~/.ssh/id_ed25519")


def with_found(
    request: SiteInitRequest,
    found: Discovery,
    bmc_user: str | None,
    port: int | None,
    key: str | None,
) -> SiteInitRequest:
    """The request, with the pins, the BMCs' login, the password for sudo, and how to image."""
    from appliance.adapters.ssh.trust.known_hosts import entry_name
    from appliance.model.checks.discovery.draft import host_vars
    from appliance.model.checks.discovery.imaging import remark
    from appliance.model.node.bmc.report import PASSWORD_NAME, USER_NAME
    from appliance.model.site.vault_ref import BECOME_PASSWORD

    values, lines = {name: dict(one) for name, one in request.host_vars.items()}, ""
    remarks: dict[str, dict[str, tuple[str, ...]]] = {}
    for node in found.drafted.nodes:
        values[node.name] |= host_vars(node, found.pins[node.bmc] if node.bmc else None)
        if told := remark(node.machine, node.by_bmc):
            remarks[node.name] = {"imaging": told}
        if node.ssh:
            name = entry_name(str(node.ssh.address), port or 22)
            lines += f"{name} {found.pins[node.ssh]}\n"
    secrets = dict(request.secrets)
    if found.bmc_password is not None:
        secrets |= {USER_NAME: bmc_user or "admin", PASSWORD_NAME: found.bmc_password}
    if found.sudo_password is not None:
        secrets[BECOME_PASSWORD.name] = found.sudo_password
    settings = dict(request.settings)
    if key and any(node.bmc for node in found.drafted.nodes):
        settings["imaging"] = {"authorized_keys": [key]}
    return replace(
        request,
        settings=settings,
        host_vars=values,
        known_hosts=lines,
        secrets=secrets,
        remarks=remarks,
    )


def public_key(private_key: str | None) -> str | None:
    """The public key beside the site's key; None where there is none.

    Args:
        private_key: its path; None: the first of those that ssh tries.
    """
    from appliance.adapters.local.plain_files import read_plain
    from appliance.model.site.imaging_settings import is_public_key

    for name in (private_key,) if private_key else _DEFAULT_KEYS:
        path = Path(f"{name.removesuffix('.pub')}.pub").expanduser()
        try:
            text = read_plain(path, most_bytes=_MOST_BYTES, follow=True).decode().strip()
        except (OSError, ValueError):
            continue
        if is_public_key(text):
            return text
    return None


def left_to_write(request: SiteInitRequest, found: Discovery) -> list[tuple[str, str]]:
    """Files and keys that bare servers need, and nothing told."""
    rows: list[tuple[str, str]] = []
    if not any(node.bmc for node in found.drafted.nodes):
        return rows
    if "imaging" not in request.settings:
        rows.append(("group_vars/all/site.yml", "imaging.authorized_keys, for node image"))
    if request.remarks:
        names = ", ".join(request.remarks)
        rows.append(("host_vars/NODE.yml", f"imaging.disk_serial of {names}, for node image"))
    return rows
