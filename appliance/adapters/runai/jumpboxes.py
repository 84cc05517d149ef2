"""Inspects jumpboxes, and finds Run:ai's CLI on the control host.

The look is ``appliance_jumpbox.py`` of ``playbooks/module_utils``, sent to the node with one call
below it, so that no kubeconfig with somebody's tokens comes here.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import yaml

from appliance.adapters.bundle.strict_tar import BROKEN, CHUNK, Damaged, members, plain_stream, told
from appliance.adapters.bundle.vendor_bundle import find_vendor_bundle, vendor_bundle_path
from appliance.adapters.local.content import find_content_root
from appliance.adapters.local.state_files import make_folder
from appliance.adapters.runai.access import researcher_kubeconfig
from appliance.adapters.ssh.call import last_line
from appliance.errors import NodeUnreachable, Refused
from appliance.model.bundle.vendor.bundle import plain
from appliance.model.components.access.runai_cli import (
    COMPLETION,
    PROGRAM,
    SOURCE,
    CliOptions,
    Jumpbox,
    Program,
    Researcher,
    expected_keys,
    read_look,
)
from appliance.model.documents.strict_json import Unreadable
from appliance.model.site.settings import Node, Site

if TYPE_CHECKING:
    from appliance.adapters.ssh.nodes import SshNodes

LOOK = "appliance_jumpbox.py"
LOOK_SECONDS = 60
# Run:ai's CLI has about 50 MB; a few bytes of a compressed tar may announce an endless file.
MOST_BYTES = 500_000_000
_BEGINNINGS = (b"\x7fELF", b"#!")


class SshJumpboxes:
    """The jumpboxes of one site, by SSH."""

    def __init__(self, site: Site, nodes: SshNodes) -> None:
        self._site = site
        self._nodes = nodes

    def look(self, options: CliOptions) -> dict[str, Jumpbox]:
        """Inspect all jumpboxes in parallel.

        Raises:
            NodeUnreachable: a jumpbox does not answer, or its answer is not readable.
        """
        script = look_script(self._site, options)
        names = frozenset(person.name for person in options.researchers)
        with ThreadPoolExecutor(len(options.nodes)) as pool:
            results = list(pool.map(lambda node: self._one(node, script, names), options.nodes))
        return {node.name: jumpbox for node, jumpbox in zip(options.nodes, results, strict=True)}

    def _one(self, node: Node, script: bytes, names: frozenset[str] = frozenset()) -> Jumpbox:
        python = shlex.quote(self._site.settings.ssh.python)
        answer = self._nodes.run_as_root(
            node, f"exec {python} -", stdin=script, timeout=LOOK_SECONDS, or_self=True
        )
        try:
            return read_look(answer.output, names)
        except Unreadable as error:
            output = last_line(answer.errors or answer.output)
            raise NodeUnreachable(
                f"{node.name}: the inspection exited with {answer.code}: {output or 'no output'}",
                hint=f"check that {node.name} has {python} 3.8 or later, and that "
                f"{self._site.settings.ssh.user} may use sudo there",
            ) from error


def look_script(site: Site, options: CliOptions) -> bytes:
    """The inspection program, for the standard input of Python on a node."""
    request: dict[str, Any] = {
        "program": PROGRAM,
        "completion": COMPLETION,
        "name": site.settings.control_plane_endpoint.name,
        "users": {person.name: dict(person.expected) for person in options.researchers},
    }
    call = f"import json\nprint(json.dumps(look(json.loads({json.dumps(request)!r}))))\n"
    program = find_content_root() / "playbooks" / "module_utils" / LOOK
    return program.read_bytes() + f"\n\n{call}".encode()


def researchers(site: Site, nodes: SshNodes, names: tuple[str, ...]) -> tuple[Researcher, ...]:
    """The researchers with the kubeconfigs that ``runai access kubeconfig`` would print.

    Raises:
        Refused: a name is invalid, or there is no cluster yet.
        NodeUnreachable: no control-plane node answers.
    """
    people = []
    for name in names:
        text = researcher_kubeconfig(site, nodes, name, None)
        people.append(Researcher(name, text, expected_keys(yaml.safe_load(text))))
    return tuple(people)


def find_program(site: Site, given: Path | None) -> Program | None:
    """The given file, else the CLI in the vendor bundle, else None.

    Raises:
        Refused: the file is not readable, or not a Linux program.
    """
    if given is None:
        extracted = _from_vendor_bundle(site)
        return _program(extracted, replaces=False) if extracted else None
    return _program(given.absolute(), replaces=True)


def _program(path: Path, *, replaces: bool) -> Program:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as stream:
            beginning = stream.read(4)
            digest.update(beginning)
            while block := stream.read(CHUNK):
                digest.update(block)
    except OSError as error:
        raise Refused(
            f"the Run:ai CLI {path} cannot be read: {error.strerror}", hint=SOURCE
        ) from error
    if not beginning.startswith(_BEGINNINGS):
        raise Refused(
            f"{path} is not a Linux program: it begins with {beginning!r}",
            hint=f"it may be a saved login page. Take the CLI {SOURCE}",
        )
    return Program(str(path), digest.hexdigest(), replaces)


def _from_vendor_bundle(site: Site) -> Path | None:
    """Extract the CLI from the site's vendor bundle, once."""
    bundle, tar = find_vendor_bundle(site), vendor_bundle_path(site)
    if bundle is None or tar is None or bundle.researcher_cli is None:
        return None
    folder = site.state_directory.absolute() / "runai-cli" / bundle.sha256[:16]
    kept = folder / "runai"
    if not kept.is_file():
        make_folder(folder)
        _extract(tar, bundle.researcher_cli, kept)
    return kept


def _extract(tar: Path, name: str, target: Path) -> None:
    """Extract one member to a file, atomically."""
    handle, new = tempfile.mkstemp(prefix=".runai.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as out, tar.open("rb") as packed:
            for archive, member in members(plain_stream(packed)):
                if plain(member.name) == name and member.isreg():
                    _copy(archive, member, out)
                    break
            else:
                raise Damaged("the bundle has no such file")
        Path(new).replace(target)
    except (OSError, Damaged, *BROKEN) as error:
        why = (isinstance(error, OSError) and error.strerror) or told(error)
        raise Refused(
            f"{name} cannot be extracted from the vendor bundle {tar}: {why}",
            hint=f"see what is wrong: appliance runai inspect {shlex.quote(str(tar))}; or take the "
            f"CLI {SOURCE}",
        ) from error
    finally:
        Path(new).unlink(missing_ok=True)


def _copy(archive: tarfile.TarFile, member: tarfile.TarInfo, out: IO[bytes]) -> None:
    if member.size > MOST_BYTES:
        raise Damaged(f"the CLI has {member.size} bytes, expected at most {MOST_BYTES}")
    stream = archive.extractfile(member)
    while stream is not None and (block := stream.read(CHUNK)):
        out.write(block)
