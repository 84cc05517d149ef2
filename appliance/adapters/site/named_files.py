"""The files of the control host that site.yml names, and what may become of each.

A site may come from somebody else, so the path of each file is as foreign as the rest of it:

- ``ssh.private_key`` and ``bundle_signers`` are read by programs on this machine only.
- ``runai.certificate``, ``certificates.organisation_ca`` and ``external_registry.ca`` may be
  anywhere; a node receives only the certificates in them (``adapters/site/authority_files.py``).
- ``runai.vendor_bundle`` may be anywhere; it is sent only if it was read as a vendor bundle.
- ``runai.cluster_values_file`` is sent whole, so it has to be a file of the site itself.

What must not be here: the use of the files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Final

from appliance.adapters.local.plain_files import read_plain
from appliance.adapters.site.yaml_lines import mapping_fault
from appliance.model.site.files.diagnostics import SiteFault
from appliance.model.site.files.draft import Draft
from appliance.model.site.settings import Site

# The vendor's name for the file, in the site's folder; ansible.cfg has the same pattern.
VALUES_FILE: Final = re.compile(r"runai-.*\.ya?ml")
_VALUES: Final = ("runai", "cluster_values_file")
_INSIDE: Final = (
    "copy the values file of the backend's page into the site's folder as runai-<cluster>.yaml, "
    "and name it without a folder"
)
# A values file of the vendor has some kilobytes.
_MOST_BYTES: Final = 512 * 1024


def file_faults(directory: Path, draft: Draft) -> Iterator[SiteFault]:
    """Files that are needed and missing, and a values file that may not be sent."""
    settings = draft.value
    if settings is None:
        return
    if settings.bundle_signers and not _path(directory, settings.bundle_signers).is_file():
        yield draft.fault(
            ("bundle_signers",),
            f"the file {_path(directory, settings.bundle_signers)} does not exist",
            "list the allowed signers of bundles there, or write null to accept any bundle",
        )
    brings = settings.certificates.organisation_ca
    if brings is not None and not _path(directory, brings).is_file():
        yield draft.fault(
            ("certificates", "organisation_ca"),
            f"the file {_path(directory, brings)} does not exist",
            "copy the organisation's CA certificate there, or write null for the site's own CA",
        )
    external = settings.external_registry
    if external is not None and not _path(directory, external.ca).is_file():
        yield draft.fault(
            ("external_registry", "ca"),
            f"the file {_path(directory, external.ca)} does not exist",
            "copy the certificate of the registry's CA there, as PEM",
        )
    named = settings.runai.cluster_values_file if settings.runai else None
    if named is not None:
        yield from _values_faults(directory, draft, named)


def file_warnings(directory: Path, draft: Draft) -> Iterator[SiteFault]:
    """A missing private key or vendor bundle: another machine may have it."""
    key = draft.value.ssh.private_key if draft.value else None
    if key is not None and not _path(directory, key).is_file():
        yield draft.fault(
            ("ssh", "private_key"),
            f"the file {_path(directory, key)} does not exist on this machine",
            "copy the key there before an install, or write null to use the SSH agent",
        )
    runai = draft.value.runai if draft.value else None
    if runai is not None and runai.vendor_bundle is not None:
        bundle = _path(directory, runai.vendor_bundle)
        if not bundle.is_file():
            yield draft.fault(
                ("runai", "vendor_bundle"),
                f"the file {bundle} does not exist on this machine",
                "copy it there before the install of Run:ai, or correct the path",
            )


def with_absolute_paths(site: Site) -> Site:
    """The site with absolute paths: they must not depend on the current directory."""
    settings = site.settings
    update: dict[str, object] = {}
    if settings.ssh.private_key is not None:
        key = str(_path(site.directory, settings.ssh.private_key))
        update["ssh"] = settings.ssh.model_copy(update={"private_key": key})
    if settings.certificates.organisation_ca is not None:
        path = str(_path(site.directory, settings.certificates.organisation_ca))
        update["certificates"] = settings.certificates.model_copy(update={"organisation_ca": path})
    if settings.external_registry is not None:
        path = str(_path(site.directory, settings.external_registry.ca))
        update["external_registry"] = settings.external_registry.model_copy(update={"ca": path})
    if settings.bundle_signers is not None:
        update["bundle_signers"] = str(_path(site.directory, settings.bundle_signers))
    if settings.runai is not None:
        names = ("certificate", "cluster_values_file")
        given = {name: getattr(settings.runai, name) for name in names}
        paths = {name: str(_path(site.directory, text)) for name, text in given.items() if text}
        update["runai"] = settings.runai.model_copy(update=paths)
    return replace(site, settings=settings.model_copy(update=update)) if update else site


def _path(directory: Path, text: str) -> Path:
    """A path of the settings, relative to the home or the site's directory."""
    path = Path(text).expanduser() if text.startswith("~") else Path(text)
    return path if path.is_absolute() else (directory / path).resolve()


def _values_faults(directory: Path, draft: Draft, named: str) -> Iterator[SiteFault]:
    problem = _misplaced(directory, named)
    if problem is not None:
        yield draft.fault(_VALUES, problem, _INSIDE)
        return
    found = _path(directory, named)
    try:
        content = read_plain(found, most_bytes=_MOST_BYTES)
    except FileNotFoundError:
        remedy = f"{_INSIDE}, or write null to query the backend"
        yield draft.fault(_VALUES, f"the file {found} does not exist", remedy)
    except OSError as error:
        yield draft.fault(_VALUES, f"the file {found} cannot be read: {error.strerror}", _INSIDE)
    else:
        fault = mapping_fault(content, named)
        if fault is not None:
            yield fault


def _misplaced(directory: Path, named: str) -> str | None:
    """Why a file may not be sent to a node because of its place; None if it may."""
    home, path = directory.resolve(), PurePath(named)
    if named.startswith("~") or path.is_absolute() or ".." in path.parts:
        return f"{named} is outside the site's folder {directory}"
    try:
        found = (home / path).resolve()
    except (OSError, RuntimeError) as error:
        return f"the file {named} cannot be read: {error}"
    if not found.is_relative_to(home):
        return f"{named} is a link to {found}, outside the site's folder {directory}"
    if any(part.startswith(".") for part in found.relative_to(home).parts):
        return f"{named} is hidden, and such a file is never sent to a node"
    return None
