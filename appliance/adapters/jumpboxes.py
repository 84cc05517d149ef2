"""Looks at jumpboxes, and finds Run:ai's CLI on the control host.

The look is the role's own file of judgement, sent to the node with one call below it, so that no
kubeconfig with somebody's tokens comes here.
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

from appliance.adapters.content import find_content_root
from appliance.adapters.runai_access import researcher_kubeconfig
from appliance.adapters.ssh_call import last_line
from appliance.adapters.state_files import make_folder
from appliance.adapters.strict_tar import BROKEN, CHUNK, Damaged, members, plain_stream, told
from appliance.adapters.vendor_bundle_file import find_vendor_bundle, vendor_bundle_path
from appliance.errors import NodeUnreachable, Refused
from appliance.model.runai_cli import (
    COMPLETION,
    PROGRAM,
    SOURCE,
    Jumpbox,
    Program,
    Researcher,
    expected_keys,
    read_look,
)
from appliance.model.strict_json import Unreadable
from appliance.model.vendor_bundle import plain

if TYPE_CHECKING:
    from appliance.adapters.ssh import SshNodes
    from appliance.model.runai_cli import CliWish
    from appliance.model.site import Node, Site

JUDGEMENT = "playbooks/module_utils/appliance_jumpbox.py"
# What the judgement starts programs with; on a node there is no Ansible to import it from.
PROGRAMS = "playbooks/module_utils/appliance_programs.py"
LOOK_SECONDS = 60
# Run:ai's is some 50 MB; a few bytes of a packed tar may say that they are a file without end.
MOST_BYTES = 500_000_000
_BEGINNINGS = (b"\x7fELF", b"#!")
_IMPORTS = """
import sys, types
sys.modules["ansible"] = types.ModuleType("ansible")
sys.modules["ansible.module_utils"] = types.ModuleType("ansible.module_utils")
programs = types.ModuleType("appliance_programs")
exec({programs!r}, vars(programs))
sys.modules["ansible.module_utils"].appliance_programs = programs
"""
_RUN = """
if [ "$(id -u)" = 0 ]; then s=; elif sudo -n true 2>/dev/null; then s='sudo -n'; else s=; fi
exec $s {python} -
"""


class SshJumpboxes:
    """The jumpboxes of one site, by SSH."""

    def __init__(self, site: Site, nodes: SshNodes) -> None:
        self._site = site
        self._nodes = nodes

    def look(self, wish: CliWish) -> dict[str, Jumpbox]:
        """Look at each, all at the same time.

        Raises:
            NodeUnreachable: one does not answer, or says what is not understood.
        """
        script = look_script(self._site, wish)
        names = frozenset(person.name for person in wish.researchers)
        with ThreadPoolExecutor(len(wish.nodes)) as pool:
            seen = list(pool.map(lambda node: self._one(node, script, names), wish.nodes))
        return {node.name: found for node, found in zip(wish.nodes, seen, strict=True)}

    def _one(self, node: Node, script: bytes, names: frozenset[str] = frozenset()) -> Jumpbox:
        python = shlex.quote(self._site.settings.ssh.python)
        command = f"sh -c {shlex.quote(_RUN.format(python=python))}"
        answer = self._nodes.run(node, command, stdin=script, timeout=LOOK_SECONDS)
        try:
            return read_look(answer.output, names)
        except Unreadable as error:
            said = last_line(answer.errors or answer.output)
            raise NodeUnreachable(
                f"{node.name}: the look ended with code {answer.code} and said: "
                f"{said or 'nothing'}",
                hint=f"has {node.name} a {python} of 3.8 or later, and may "
                f"{self._site.settings.ssh.user} sudo there?",
            ) from error


def look_script(site: Site, wish: CliWish) -> bytes:
    """The program that looks, for the standard input of Python on a node."""
    want: dict[str, Any] = {
        "program": PROGRAM,
        "completion": COMPLETION,
        "name": site.settings.control_plane_endpoint.name,
        "users": {person.name: dict(person.expected) for person in wish.researchers},
    }
    judgement, programs = (
        (find_content_root() / path).read_text(encoding="utf-8") for path in (JUDGEMENT, PROGRAMS)
    )
    call = f"import json\nprint(json.dumps(look(json.loads({json.dumps(want)!r}))))\n"
    return f"{_IMPORTS.format(programs=programs)}\n{judgement}\n\n{call}".encode()


def researchers(site: Site, nodes: SshNodes, names: tuple[str, ...]) -> tuple[Researcher, ...]:
    """Each with the kubeconfig that ``runai access kubeconfig`` would print.

    Raises:
        Refused: a name that cannot be in a kubeconfig, or a cluster that is not there yet.
        NodeUnreachable: no control-plane node answers.
    """
    found = []
    for name in names:
        text = researcher_kubeconfig(site, nodes, name, None)
        found.append(Researcher(name, text, expected_keys(yaml.safe_load(text))))
    return tuple(found)


def find_program(site: Site, given: Path | None) -> Program | None:
    """The file that was given, else the one in the vendor bundle, else None.

    Raises:
        Refused: it is not readable, or no program for Linux.
    """
    if given is None:
        taken = _from_vendor_bundle(site)
        return _program(taken, replaces=False) if taken else None
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
            f"{path} is no program for Linux: it begins with {beginning!r}",
            hint=f"perhaps it is a login page that was saved in its place. Take it {SOURCE}",
        )
    return Program(str(path), digest.hexdigest(), replaces)


def _from_vendor_bundle(site: Site) -> Path | None:
    """Take the CLI out of the site's vendor bundle, once."""
    bundle, tar = find_vendor_bundle(site), vendor_bundle_path(site)
    if bundle is None or tar is None or bundle.researcher_cli is None:
        return None
    folder = site.state_directory.absolute() / "runai-cli" / bundle.sha256[:16]
    kept = folder / "runai"
    if not kept.is_file():
        make_folder(folder)
        _extract(tar, bundle.researcher_cli, kept)
    return kept


def _extract(tar: Path, wanted: str, target: Path) -> None:
    """Stream one member into a file, which appears whole or not at all."""
    handle, new = tempfile.mkstemp(prefix=".runai.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as out, tar.open("rb") as packed:
            for archive, member in members(plain_stream(packed)):
                if plain(member.name) == wanted and member.isreg():
                    _copy(archive, member, out)
                    break
            else:
                raise Damaged("it has no such file")
        Path(new).replace(target)
    except (OSError, Damaged, *BROKEN) as error:
        why = (isinstance(error, OSError) and error.strerror) or told(error)
        raise Refused(
            f"{wanted} cannot be taken from the vendor bundle {tar}: {why}",
            hint=f"see what is wrong: appliance runai inspect {shlex.quote(str(tar))}; or take the "
            f"CLI {SOURCE}",
        ) from error
    finally:
        Path(new).unlink(missing_ok=True)


def _copy(archive: tarfile.TarFile, member: tarfile.TarInfo, out: IO[bytes]) -> None:
    if member.size > MOST_BYTES:
        raise Damaged(f"it has {member.size} bytes, and no CLI is larger than {MOST_BYTES}")
    stream = archive.extractfile(member)
    while stream is not None and (block := stream.read(CHUNK)):
        out.write(block)
