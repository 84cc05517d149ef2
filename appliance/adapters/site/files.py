"""Reads and checks a site's directory completely, before any change.

What must not be here: what a value means (``appliance.model.checks.site``), and reading secrets
(``appliance.adapters.site.vault``); of the vault only that it is encrypted is looked at.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from appliance.adapters.local.plain_files import read_plain
from appliance.adapters.site.content import known_content
from appliance.adapters.site.named_files import (
    VALUES_FILE,
    file_faults,
    file_warnings,
    with_absolute_paths,
)
from appliance.adapters.site.state import no_site
from appliance.adapters.site.vault_files import conflict_fault, vault_faults
from appliance.adapters.site.yaml_lines import MOST_BYTES, read_yaml
from appliance.errors import ConfigError
from appliance.model.checks.site.rules import site_faults, site_warnings
from appliance.model.site.files.diagnostics import Document, SiteFault, check_document
from appliance.model.site.files.draft import (
    NODE_PLACEHOLDERS,
    SETTINGS_PLACEHOLDERS,
    Draft,
    KnownContent,
    NodeDraft,
)
from appliance.model.site.files.hosts import read_hosts
from appliance.model.site.files.secrets import secrets_in
from appliance.model.site.settings import NodeSettings, Site, SiteSettings
from appliance.model.site.vault_ref import CA_FILE, CA_GROUP

HOSTS: Final = "hosts.yml"
SETTINGS: Final = "group_vars/all/site.yml"
VAULT: Final = "group_vars/all/vault.yml"

_HARMLESS: Final = {".md", ".txt", ".rst", ".orig", ".bak", ".swp", ".crt", ".pem", ".pub"}
# ssh-keygen -R leaves the .old one; Ansible ignores the plain files by our ansible.cfg.
_PLAIN: Final = {"known_hosts", "known_hosts.old", "known_bundle", "allowed_signers"}
_KNOWN: Final = {HOSTS, "group_vars", "host_vars", *_PLAIN}
# Folder -> what may be in it, and what to do about anything else.
_GROUP_VARS: Final = (
    (
        "group_vars",
        ("group_vars/all", f"group_vars/{CA_GROUP}"),
        f"write settings for all nodes into {SETTINGS}",
    ),
    (
        "group_vars/all",
        (SETTINGS, VAULT),
        f"write settings into {SETTINGS} and secrets into {VAULT}",
    ),
    (f"group_vars/{CA_GROUP}", (CA_FILE,), f"keep only {CA_FILE} in this folder"),
)
# Letters of any language; no space, and no special character of ssh, rsync, Ansible or a shell.
_PATH_FOR_SSH: Final = re.compile(r"[\w./+@=-]+")


@dataclass(frozen=True)
class SiteCheck:
    """The result of checking a directory: the site if it has no fault, faults and warnings."""

    site: Site | None
    documents: tuple[Document, ...]
    faults: tuple[SiteFault, ...]
    warnings: tuple[SiteFault, ...]


def restore_of(vault: str) -> str:
    """How to get a vault file back that is missing or damaged."""
    return (
        f"restore it in the site's directory: git log -- {vault}, then git checkout COMMIT -- "
        f"{vault}; or from a backup; a new vault has a new CA, which the nodes of an existing "
        "cluster do not trust: appliance docs write-a-site"
    )


def load_site(directory: Path, *, known: KnownContent | None = None) -> Site:
    """Read a site, or refuse it with all its faults.

    Args:
        directory: the site's directory.
        known: releases, hardware and roles to check against; None for those installed.

    Raises:
        ConfigError: one detail for each fault, ``file:line: problem; remedy``.
    """
    check = check_site(directory, known=known)
    if check.site is None:
        raise refusal(directory, check)
    return check.site


def refusal(directory: Path, check: SiteCheck) -> ConfigError:
    """The error with every fault of a check."""
    count = len(check.faults)
    return ConfigError(
        f"the site {directory} has {count} fault{'s' if count != 1 else ''}; nothing was changed",
        details=[str(fault) for fault in check.faults],
        hint=f"correct them, then run: appliance site check --site {shlex.quote(str(directory))}",
    )


def require_plain_path(home: Path) -> None:
    """Refuse a site path that ssh, rsync or Ansible cannot use.

    Raises:
        ConfigError: the path has a space, a quote or another special character.
    """
    if not _PATH_FOR_SSH.fullmatch(str(home)):
        raise ConfigError(
            f"ssh, rsync and Ansible cannot use the path {str(home)!r}",
            hint="choose a path of only letters, digits and . _ - + @ = /",
        )


def check_site(directory: Path, *, known: KnownContent | None = None) -> SiteCheck:
    """Read a site and find all its faults.

    Raises:
        ConfigError: there is no such directory.
    """
    if not directory.is_dir():
        raise no_site(directory)
    home = directory.resolve()
    require_plain_path(home)
    known = known or known_content()
    reader = _Reader(directory)
    draft = reader.draft()
    faults = [*reader.faults, *site_faults(draft, known), *_vault_faults(reader)]
    faults.extend(_known_hosts_faults(reader))
    faults.extend(file_faults(directory, draft))
    faults = list(dict.fromkeys(_shown(directory, fault) for fault in faults))
    order = {document.file: index for index, document in enumerate(reader.documents)}
    faults.sort(key=lambda fault: (order.get(_inside(directory, fault), len(order)), fault.line))
    warnings = [*site_warnings(draft, known), *file_warnings(directory, draft)]
    shown = tuple(_shown(directory, fault) for fault in warnings)
    site = None
    if not faults:
        # Playbooks run in another folder: relative paths would point elsewhere.
        site = with_absolute_paths(draft.finished(home, tuple(str(fault) for fault in shown)))
    return SiteCheck(site, tuple(reader.documents), tuple(faults), shown)


def _shown(directory: Path, fault: SiteFault) -> SiteFault:
    return replace(fault, file=str(directory / fault.file))


def _inside(directory: Path, fault: SiteFault) -> str:
    return str(Path(fault.file).relative_to(directory))


class _Reader:
    """Reads the files of one directory and collects the faults of each file."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.faults: list[SiteFault] = []
        self.documents: list[Document] = []

    def draft(self) -> Draft:
        """Read everything."""
        self._strays()
        hosts, faults = read_hosts(self._document(HOSTS, "create it: list the nodes of each group"))
        self.faults.extend(faults)
        document = self._document(SETTINGS, "create it with the site's settings")
        settings = check_document(document, SiteSettings, SETTINGS_PLACEHOLDERS)
        self.faults.extend(settings.faults)
        nodes = {}
        for file in self._files("host_vars"):
            if not file.endswith(".yml"):
                self._stray(file, "write host_vars/<node>.yml, one file for each node")
                continue
            node = self._document(file, "")
            checked = check_document(node, NodeSettings, NODE_PLACEHOLDERS)
            self.faults.extend(checked.faults)
            nodes[Path(file).stem] = NodeDraft(node, checked)
        return Draft(hosts, document, settings, nodes)

    def read(self, file: str) -> bytes | None:
        """Read a file; None if it is missing, empty and a fault if it cannot be read."""
        try:
            # A link is accepted; a pipe or a device is not: reading it would never end.
            return read_plain(self.directory / file, most_bytes=MOST_BYTES, follow=True)
        except FileNotFoundError:
            return None
        except OSError as error:
            self.faults.append(
                SiteFault(
                    file,
                    1,
                    f"the file cannot be read: {error.strerror}",
                    "make it a regular file that you may read",
                )
            )
            return b""

    def _document(self, file: str, remedy: str) -> Document:
        unread = Document(file, {}, {}, frozenset({()}))
        before = len(self.faults)
        content = self.read(file)
        if content is None:
            self.faults.append(SiteFault(file, 1, "the file is missing", remedy))
        if content is None or len(self.faults) > before:
            self.documents.append(unread)
            return unread
        self.faults.extend(_program(self.directory, file, content))
        document, faults = read_yaml(content, file)
        self.faults.extend(faults)
        secrets = dict(secrets_in(document))
        self.faults.extend(secrets.values())
        document = replace(document, broken=document.broken | set(secrets))
        self.documents.append(document)
        return document

    def _files(self, folder: str) -> Iterator[str]:
        try:
            entries = sorted((self.directory / folder).iterdir())
        except FileNotFoundError:
            return
        except OSError as error:
            self.faults.append(
                SiteFault(
                    folder,
                    1,
                    f"the folder cannot be read: {error.strerror}",
                    "make it a folder that you may read",
                )
            )
            return
        for entry in entries:
            if not entry.name.startswith(".") and entry.suffix not in _HARMLESS:
                yield f"{folder}/{entry.name}" if folder else entry.name

    def _stray(self, file: str, remedy: str) -> None:
        self.faults.append(
            SiteFault(file, 1, "Ansible would read this file, but it is not checked", remedy)
        )

    def _is_values(self, file: str) -> bool:
        """Whether it is a values file of Run:ai, which Ansible ignores by our ansible.cfg."""
        return VALUES_FILE.fullmatch(file) is not None and not (self.directory / file).is_dir()

    def _strays(self) -> None:
        for file in self._files(""):
            if file not in _KNOWN and not file.endswith("~") and not self._is_values(file):
                remedy = "write the inventory as hosts.yml, and move this file out of the site"
                self._stray(file, remedy)
        for folder, files, remedy in _GROUP_VARS:
            for file in self._files(folder):
                if file not in files:
                    self._stray(file, remedy)


def _program(directory: Path, file: str, content: bytes) -> Iterator[SiteFault]:
    """Refuse programs, which Ansible would run and trust; so does ansible.cfg."""
    if content.startswith(b"#!"):
        yield SiteFault(file, 1, "the file begins with #!, like a program", "delete the line")
    if (directory / file).stat().st_mode & 0o111:
        path = shlex.quote(str(directory / file))
        yield SiteFault(file, 1, "the file is executable, like a program", f"chmod a-x {path}")


def _vault_faults(reader: _Reader) -> Iterator[SiteFault]:
    yield from _vault_file_faults(reader, VAULT)
    if (reader.directory / CA_FILE).exists():
        yield from _vault_file_faults(reader, CA_FILE)


def _vault_file_faults(reader: _Reader, file: str) -> Iterator[SiteFault]:
    before = len(reader.faults)
    content = reader.read(file)
    if len(reader.faults) > before:
        yield reader.faults[-1]
        return
    if content is None:
        # An organisation's CA is only for the backend; every node trusts the site's CA.
        yield SiteFault(file, 1, "the file is missing; it holds the site's CA", restore_of(file))
        return
    yield from _program(reader.directory, file, content)
    yield from vault_faults(content, file, restore_of(file))


def _known_hosts_faults(reader: _Reader) -> Iterator[SiteFault]:
    content = reader.read("known_hosts")
    conflict = conflict_fault((content or b"").decode("utf-8", "replace"), "known_hosts")
    if conflict is not None:
        yield conflict
