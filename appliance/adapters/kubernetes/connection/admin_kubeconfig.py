"""The administrator's kubeconfig for the admin host, from what a control-plane node holds.

Only the certificates and the key are taken, as for our own client: a program or a proxy that a
node's admin.conf names never gets here.
"""

from __future__ import annotations

import os
import shlex
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import yaml

from appliance.adapters.kubernetes.connection.client import Credentials, NotReadable, credentials_of
from appliance.adapters.local.state_files import replace_file, write_once
from appliance.adapters.ssh.call import last_line
from appliance.errors import NodeUnreachable, Refused
from appliance.model.components.control_plane.admin_kubeconfig import (
    MARK,
    TUNNEL_PORT,
    admin_kubeconfig,
    api_addresses,
)
from appliance.model.site.settings import Site
from appliance.model.site.ssh import login_words

if TYPE_CHECKING:
    from appliance.adapters.ssh.nodes import SshNodes

ADMIN_CONF: Final = "/etc/kubernetes/admin.conf"
# Of a connection and of TLS, to a server on the LAN.
SECONDS: Final = 3.0


@dataclass(frozen=True)
class Reach:
    """Whether this machine reaches the API at an address.

    Attributes:
        server: HOST:PORT that was tried.
        problem: why kubectl would fail there; empty where it works.
    """

    server: str
    problem: str = ""


@dataclass(frozen=True)
class Holder:
    """Whose certificate it is.

    Attributes:
        user: the user's name in the cluster.
        groups: the user's groups.
        until: the end of the certificate, as ``2027-11-26``.
    """

    user: str
    groups: tuple[str, ...]
    until: str


def find_credentials(site: Site, nodes: SshNodes) -> tuple[Credentials, str]:
    """The administrator's credentials, and where they were found.

    The control-plane nodes are asked in the inventory's order. If none of them can be reached, the
    file that the install left in the site's state will do.

    Raises:
        Refused: there is no cluster yet.
        NodeUnreachable: no control-plane node gave them, and no file is kept.
    """
    told: list[str] = []
    absent = 0
    for node in site.control_plane:
        try:
            answer = nodes.read_as_root(node, ADMIN_CONF, timeout=10)
            if answer.code == 0:
                return credentials_of(answer.output), f"{node.name}:{ADMIN_CONF}"
            absent += 1
            told.append(f"{node.name}: {last_line(answer.errors) or f'no {ADMIN_CONF}'}")
        except NodeUnreachable as error:
            told.append(error.message)
        except NotReadable as error:
            told.append(f"{node.name}: {error}")
    if absent == len(site.control_plane):
        raise Refused(
            f"there is no cluster yet: no control-plane node has {ADMIN_CONF}",
            details=told,
            hint="create it: appliance install",
        )
    kept = site.state_directory / "kubeconfig"
    try:
        return credentials_of(kept.read_text(encoding="utf-8")), str(kept)
    except (OSError, UnicodeDecodeError, NotReadable):
        raise NodeUnreachable(
            "no control-plane node gave its credentials",
            details=told,
            hint="see what is wrong: appliance status",
        ) from None


def holder_of(credentials: Credentials) -> Holder | None:
    """Whose certificate it is; None if it cannot be read."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    try:
        certificate = x509.load_pem_x509_certificate(credentials.certificate)
        # The subject and the dates are read only here.
        subject = certificate.subject
        names = [str(name.value) for name in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        groups = subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
        until = certificate.not_valid_after_utc.date().isoformat()
    except ValueError:
        return None
    return Holder(", ".join(names), tuple(str(group.value) for group in groups), until)


def find_reach(site: Site, credentials: Credentials, addresses: Sequence[str] = ()) -> Reach:
    """The first address at which this machine reaches the API; else the first, with its problem.

    Args:
        site: whose endpoint's name the certificate has to have.
        credentials: whose CA has to have signed the certificate.
        addresses: HOST:PORT to try; empty: the endpoint, then each API server.
    """
    tried = [_reach(site, credentials, one) for one in addresses or api_addresses(site)]
    return next((one for one in tried if not one.problem), tried[0])


def _reach(site: Site, credentials: Credentials, server: str) -> Reach:
    host, _, port = server.rpartition(":")
    try:
        context = ssl.create_default_context(cadata=credentials.authority.decode())
        with (
            socket.create_connection((host, int(port)), timeout=SECONDS) as connection,
            context.wrap_socket(
                connection, server_hostname=site.settings.control_plane_endpoint.name
            ),
        ):
            return Reach(server)
    except ssl.SSLCertVerificationError as error:
        return Reach(server, f"another certificate is there: {error.verify_message}")
    except TimeoutError:
        return Reach(server, f"no answer within {SECONDS:g} s")
    except (OSError, ValueError) as error:
        return Reach(server, getattr(error, "strerror", None) or str(error))


def tunnel_command(site: Site) -> str:
    """What to leave running on this machine, so that the API answers on its loopback."""
    node = site.control_plane[0]
    site = replace(site, directory=site.directory.resolve())
    forward = f"{TUNNEL_PORT}:{node.ip}:6443"
    return shlex.join(login_words(site, node, forward=forward))


def text_of(site: Site, credentials: Credentials, server: str) -> str:
    """The whole file."""
    document = admin_kubeconfig(
        site,
        server,
        authority=credentials.authority,
        certificate=credentials.certificate,
        key=credentials.key,
    )
    return f"{MARK}\n{yaml.safe_dump(document, sort_keys=False)}"


def write_kubeconfig(path: Path, text: str) -> None:
    """Write the file, mode 0600; one of our own is replaced.

    Raises:
        Refused: another file is there, or it cannot be written.
    """
    try:
        if not path.exists() and not path.is_symlink():
            write_once(path, text)
            return
        ours = path.is_file() and path.read_text("utf-8", errors="replace").startswith(MARK)
        if ours and not path.is_symlink() and _is_owners(path):
            replace_file(path, text)
            return
    except OSError as error:
        raise Refused(
            f"{path} cannot be written: {error.strerror}", hint="name another file with --out"
        ) from error
    raise Refused(
        f"{path} was not written by this command; it was not changed",
        hint="name another file with --out; kubectl reads several: export KUBECONFIG=FILE:FILE",
    )


def _is_owners(path: Path) -> bool:
    """Whether the file is of this user, or of the one who typed sudo.

    A replaced file keeps its owner: another user could put a file with our first line there, and
    would own what root writes.
    """
    typed_by = os.environ.get("SUDO_UID", "")
    mine = {os.geteuid(), *([int(typed_by)] if typed_by.isdecimal() else [])}
    return path.lstat().st_uid in mine
