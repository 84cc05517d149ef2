"""Files for researchers and the backend: a kubeconfig, a key, a certificate."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import yaml

from appliance.adapters.runai.certificate import new_key, request_for, sign
from appliance.adapters.runai.files import issuer_ca, write_new
from appliance.adapters.site.vault import AnsibleVault, password_file
from appliance.errors import NodeUnreachable, Refused
from appliance.model.components.access.kubeconfig import researcher_kubeconfig as document
from appliance.model.components.access.oidc import SITE_CA_FILE
from appliance.model.site.authority import Authority
from appliance.model.site.settings import Site
from appliance.model.site.vault_ref import CA_CERTIFICATE, CA_FILE, CA_KEY

if TYPE_CHECKING:
    from appliance.adapters.ssh.nodes import SshNodes

CLUSTER_CA: Final = "/etc/kubernetes/pki/ca.crt"
# Folder of the site's state for the files of csr.
CERTIFICATES: Final = "certificates"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,100}")


def researcher_kubeconfig(site: Site, nodes: SshNodes, user: str, project: str | None) -> str:
    """The kubeconfig of one researcher; the CAs are read from a control-plane node.

    Raises:
        Refused: a name is invalid, or there is no cluster yet.
        NodeUnreachable: no control-plane node answers.
    """
    for name in (user, project or "project"):
        if not _NAME.fullmatch(name):
            raise Refused(
                f"{name!r} is not a valid name of a person or project",
                hint="use letters, digits and . _ @ + - : appliance runai access kubeconfig ada",
            )
    authority = _read(site, nodes, CLUSTER_CA)
    issuer = issuer_ca(site) or _read(site, nodes, SITE_CA_FILE)
    config = document(site, user, cluster_ca=authority, issuer_ca=issuer, project=project)
    return yaml.safe_dump(config, sort_keys=False)


def _read(site: Site, nodes: SshNodes, path: str) -> str:
    """A public file of a control-plane node."""
    for node in site.control_plane:
        try:
            answer = nodes.run(node, f"cat {path}", timeout=10)
        except NodeUnreachable:
            if node is site.control_plane[-1]:
                raise
            continue
        if answer.code == 0 and "CERTIFICATE" in answer.output:
            return answer.output
    raise Refused(
        f"{site.control_plane[0].name}: {path} does not exist: there is no cluster yet",
        hint="appliance install",
    )


def certificate_request(site: Site, folder: Path | None, *, signed: bool) -> dict[str, Path]:
    """Write key and request, and the certificate if requested; an existing key is reused.

    Args:
        site: the site of the backend.
        folder: the folder of the files; None: the site's state, which git ignores.
        signed: whether the site's CA signs the request.

    Raises:
        Refused: the certificate exists already, the site has no CA, or the folder is under
            version control with the site.
    """
    name = site.runai_domain
    folder = _folder(site, folder)
    paths = {kind: folder / f"{name}.{kind}" for kind in ("key", "csr")}
    authority = _authority(site) if signed else None
    if signed:
        paths["crt"] = folder / f"{name}.crt"
        if paths["crt"].exists():
            raise Refused(
                f"{paths['crt']} exists already and was not changed",
                hint="move it away, or name another folder with --out",
            )
    if not paths["key"].exists():
        write_new(paths["key"], new_key())
    key = paths["key"].read_text(encoding="ascii")
    request = request_for(name, key)
    paths["csr"].unlink(missing_ok=True)
    write_new(paths["csr"], request, mode=0o644)
    if authority is not None:
        write_new(paths["crt"], sign(request, authority), mode=0o644)
    return paths


def _folder(site: Site, out: Path | None) -> Path:
    state = site.state_directory.resolve()
    folder = out.resolve() if out else state / CERTIFICATES
    if folder.is_relative_to(site.directory.resolve()) and not folder.is_relative_to(state):
        raise Refused(
            f"{folder} is in the site's directory: git would commit the key",
            hint=f"name a folder outside it with --out, or omit --out: {state / CERTIFICATES}",
        )
    return folder


def _authority(site: Site) -> Authority:
    password = password_file(site)
    if password is None:
        raise Refused(
            "the vault's password is not known: the site's CA cannot sign",
            hint="write it to .appliance/vault-password of the site (0600)",
        )
    vault, authority = AnsibleVault(password), site.directory / CA_FILE
    # A site of an older version has the key in the vault itself.
    secrets = {
        **vault.read(site.vault_file),
        **(vault.read(authority) if authority.is_file() else {}),
    }
    try:
        return Authority(secrets[CA_CERTIFICATE.name], secrets[CA_KEY.name])
    except KeyError as error:
        raise Refused(
            f"the vault has no {error.args[0]}: the site has no CA of its own",
            hint="let your organisation's CA sign the request",
        ) from None
