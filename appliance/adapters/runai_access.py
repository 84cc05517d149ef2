"""What researchers and the backend are given as files: a kubeconfig, a key, a certificate."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import yaml

from appliance.adapters.runai_certificate import new_key, request_for, sign
from appliance.adapters.runai_files import issuer_ca, write_new
from appliance.adapters.vault import AnsibleVault, password_file
from appliance.errors import NodeUnreachable, Refused
from appliance.model.access import SITE_CA_FILE
from appliance.model.authority import Authority
from appliance.model.kubeconfig import researcher_kubeconfig as document

if TYPE_CHECKING:
    from appliance.adapters.ssh import SshNodes
    from appliance.model.site import Site

CLUSTER_CA: Final = "/etc/kubernetes/pki/ca.crt"
# Of the site's state: what csr makes.
CERTIFICATES: Final = "certificates"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,100}")


def researcher_kubeconfig(site: Site, nodes: SshNodes, user: str, project: str | None) -> str:
    """The kubeconfig of one researcher; the CAs are read from a control-plane node.

    Raises:
        Refused: a name that cannot be in a kubeconfig, or a cluster that is not there yet.
        NodeUnreachable: no control-plane node answers.
    """
    for name in (user, project or "project"):
        if not _NAME.fullmatch(name):
            raise Refused(
                f"{name!r} is no name of a person or project",
                hint="letters, figures and . _ @ + - : appliance runai access kubeconfig ada",
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
        f"{site.control_plane[0].name}: there is no {path}, so there is no cluster yet",
        hint="appliance install",
    )


def certificate_request(site: Site, folder: Path | None, *, signed: bool) -> dict[str, Path]:
    """Write key and request, and the certificate if asked; a key that is there is used again.

    Args:
        site: whose backend it is for.
        folder: where the files go; None: into the site's state, which git ignores.
        signed: whether the site's own CA signs it.

    Raises:
        Refused: a certificate is there already, the site has no CA of its own, or the folder is
            one of the site's own files.
    """
    name = site.runai_domain
    folder = _folder(site, folder)
    made = {kind: folder / f"{name}.{kind}" for kind in ("key", "csr")}
    authority = _authority(site) if signed else None
    if signed:
        made["crt"] = folder / f"{name}.crt"
        if made["crt"].exists():
            raise Refused(
                f"{made['crt']} is there already, and was left as it is",
                hint="move it away, or name another folder with --out",
            )
    if not made["key"].exists():
        write_new(made["key"], new_key())
    key = made["key"].read_text(encoding="ascii")
    request = request_for(name, key)
    made["csr"].unlink(missing_ok=True)
    write_new(made["csr"], request, mode=0o644)
    if authority is not None:
        write_new(made["crt"], sign(request, authority), mode=0o644)
    return made


def _folder(site: Site, wanted: Path | None) -> Path:
    state = site.state_directory.resolve()
    folder = wanted.resolve() if wanted else state / CERTIFICATES
    if folder.is_relative_to(site.directory.resolve()) and not folder.is_relative_to(state):
        raise Refused(
            f"{folder} is within the site's directory: git would take the key from there",
            hint=f"name a folder outside it with --out, or none: {state / CERTIFICATES}",
        )
    return folder


def _authority(site: Site) -> Authority:
    password = password_file(site)
    if password is None:
        raise Refused(
            "the vault's password is not known, so the site's CA cannot sign",
            hint="put it into .appliance/vault-password of the site (0600)",
        )
    secrets = AnsibleVault(password).read(site.vault_file)
    try:
        return Authority(secrets["vault_site_ca_certificate"], secrets["vault_site_ca_key"])
    except KeyError as error:
        raise Refused(
            f"the vault holds no {error.args[0]}: the site has no CA of its own",
            hint="have your organisation's CA sign the request",
        ) from None
