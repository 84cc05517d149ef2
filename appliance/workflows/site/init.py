"""Write a new site: complete, commented, checked before the first file, with a CA of its own."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from appliance.errors import ConfigError, Refused
from appliance.model.components.runai.vendor_defaults import SECRETS as VENDOR_SECRETS
from appliance.model.components.runai.vendor_defaults import new_secret
from appliance.model.site.files.new import NewSite
from appliance.model.site.files.new_faults import NewSiteFaults
from appliance.model.site.files.secrets import REGISTRY_PASSWORD
from appliance.model.site.files.text import hosts_text, node_text, site_text
from appliance.model.site.vault_ref import CA_CERTIFICATE, CA_FILE, CA_KEY, TEMPLATE, UNSAFE

if TYPE_CHECKING:
    from appliance.workflows.session.local_ports import Authorities, SiteFolder, Vault

VAULT: Final = "group_vars/all/vault.yml"
_FIRST: Final = ("hosts.yml", "group_vars/all/site.yml", "known_hosts")
# What a check sees in place of the vault, before its password is asked for.
_SEALED: Final = (
    "$ANSIBLE_VAULT;1.1;AES256\n" + "\n".join(("0" * 64, "0" * 64, "0" * 32)).encode().hex() + "\n"
)


@dataclass(frozen=True)
class SiteInitRequest:
    """A site to be written.

    Attributes:
        directory: where.
        settings: keys of group_vars/all/site.yml; what is absent stands there as a comment.
        groups: group -> its nodes.
        host_vars: node -> keys of its host_vars file.
        dry_run: check it, and write nothing.
        secrets: further entries of the vault.
        options: the options that the rest was made from, to blame for a fault; None without any.
        known_hosts: lines of host keys that were confirmed already.
        remarks: node -> key of its host_vars file that is not given -> lines of its comment.
    """

    directory: Path
    settings: Mapping[str, Any]
    groups: Mapping[str, Sequence[str]]
    host_vars: Mapping[str, Mapping[str, Any]]
    dry_run: bool = False
    secrets: Mapping[str, str] = field(default_factory=dict)
    options: NewSiteFaults | None = None
    known_hosts: str = ""
    remarks: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)

    @classmethod
    def of(cls, directory: Path, new: NewSite, *, dry_run: bool = False) -> SiteInitRequest:
        """The request of somebody who typed options."""
        options = NewSiteFaults(new)
        said = options.sound
        return cls(
            directory,
            said.settings(),
            said.groups(),
            said.host_vars(),
            dry_run=dry_run,
            options=options,
        )


def site_init(
    request: SiteInitRequest, files: SiteFolder, authorities: Authorities, vault: Vault
) -> tuple[Path, ...]:
    """Write the site and return the paths of its files.

    Raises:
        Refused: one of the files exists; nothing was written.
        ConfigError: the site would not pass its own check; nothing was written.
    """
    texts = {**site_files(request), **files.schemas()}
    require_new(request.directory, files, texts)
    found = files.faults({**texts, VAULT: _SEALED, CA_FILE: _SEALED})
    options = request.options
    faults = [str(fault) for fault in found]
    if options is not None:
        faults = [*options.of_options(), *options.of_files(found, texts)]
    if faults:
        raise ConfigError(
            f"the site {request.directory} would have {len(faults)} "
            f"fault{'s' if len(faults) != 1 else ''}; nothing was written",
            details=faults,
            hint=options.hint(faults) if options else "correct the settings",
        )
    if request.dry_run:
        return tuple(request.directory / file for file in (*texts, VAULT, CA_FILE))
    name = str(request.settings.get("site_name") or request.directory.resolve().name)
    authority = authorities.make(name)
    secrets = "---\n" + "".join(
        _entry(name, secret)
        for name, secret in (
            (CA_CERTIFICATE.name, authority.certificate),
            *request.secrets.items(),
        )
    )
    secrets += f"{REGISTRY_PASSWORD}: {vault.new_secret()}\n"
    secrets += "".join(
        f"{name}: {new_secret(name, vault.new_secret())}\n"
        for name in VENDOR_SECRETS
        if name not in request.secrets
    )
    key = f"---\n{_entry(CA_KEY.name, authority.key)}"
    return files.write({**texts, VAULT: vault.encrypt(secrets), CA_FILE: vault.encrypt(key)})


def require_new(directory: Path, files: SiteFolder, texts: Iterable[str] = _FIRST) -> None:
    """Check that none of the files of a site exists.

    Raises:
        Refused: one does.
    """
    there = files.existing([*texts, VAULT, CA_FILE])
    if there:
        raise Refused(
            f"{directory / there[0]} exists; no file was changed",
            hint="choose another directory, or edit the existing site, then: appliance site check",
            details=[f"also exists: {directory / name}" for name in there[1:]],
        )


def _entry(name: str, secret: str) -> str:
    """A line of the vault; what Ansible would take for a template is marked as none."""
    mark = f"{UNSAFE} " if TEMPLATE.search(secret) else ""
    # A password has no end of line; a certificate has one. The 2 keeps spaces that it begins with.
    style = "|2" if secret.endswith("\n") else "|2-"
    lines = textwrap.indent(secret.rstrip("\n"), "  ")
    return f"{name}: {mark}{style}\n{lines}\n"


def site_files(request: SiteInitRequest) -> dict[str, str]:
    """Make the text of every file but the vault."""
    nodes = {
        f"host_vars/{name}.yml": node_text(values, request.remarks.get(name))
        for name, values in request.host_vars.items()
    }
    return {
        "hosts.yml": hosts_text(request.groups),
        "group_vars/all/site.yml": site_text(request.settings),
        **nodes,
        "known_hosts": request.known_hosts,
        ".gitignore": ".appliance/\n",
    }
