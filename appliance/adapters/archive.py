"""Documents kept on every control-plane node, so that another laptop finds what this one wrote.

They lie under ``/var/lib/appliance/archive``, readable by root alone, and survive an API that does
not answer. No secret belongs in one.
"""

from __future__ import annotations

import io
import re
import shlex
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from appliance.errors import ConfigError, NodeUnreachable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from appliance.adapters.ssh import Answer, SshNodes
    from appliance.model.site import Node, Site

# Others read what lies beside it, the web server the bundle: it may be the archive that makes it.
FOLDER = "/var/lib/appliance/archive"
SECONDS = 15
_ABOVE = shlex.quote(str(Path(FOLDER).parent))
_NAME = re.compile(r"[a-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*")
# Written beside its name and moved there: nobody ever reads half of it.
# The folder above is other parts' too, and stays open to them.
_PUT = """umask 022; mkdir -p {above}; umask 077; f={path}; mkdir -p "${{f%/*}}" \
&& t=$(mktemp "${{f%/*}}/.XXXXXX") \
&& cat > "$t" && sync "$t" && mv -f "$t" "$f" """
_GET = """f={path}; [ -e "$f" ] || exit 44; stat -c %Y "$f" && cat "$f" """
_EACH = """cd {path} 2>/dev/null || exit 0; find . -type f ! -path '*/.*' -printf '%P\\n' | sort | \
while read -r f; do stat -c "%Y %s $f" "$f" && cat "$f"; done"""
# Those that a node has already stay: they are as new as ours, or newer.
_ADD = """umask 022; mkdir -p {above}; umask 077; mkdir -p {path} && t=$(mktemp -d {path}/.XXXXXX) \
&& tar -xf - -C "$t" && cd "$t" && find . -type f -printf '%P\\n' | while read -r f; do \
mkdir -p {path}/"${{f%/*}}" || exit 1; [ -e {path}/"$f" ] && continue; \
sync "$f" && mv "$f" {path}/"$f" || exit 1; done && rm -rf "$t" """
_NAMES = "cd {path} 2>/dev/null || exit 0; find . -type f ! -name '.*' -printf '%P\\n'"


class ControlPlaneArchive:
    """Puts and gets documents by name, e.g. ``passports/w1.json``."""

    def __init__(self, site: Site, nodes: SshNodes) -> None:
        self._site = site
        self._nodes = nodes

    def put(self, name: str, text: str) -> tuple[str, ...]:
        """Write a document on every control-plane node, whole or not at all.

        Returns:
            One sentence for each node that has it not; they are fewer than half.

        Raises:
            NodeUnreachable: it is on no majority of the control-plane nodes.
        """
        answers = self._everywhere(_PUT.format(path=_path(name), above=_ABOVE), text.encode())
        missed = _failures(answers)
        if 2 * (len(answers) - len(missed)) <= len(answers):
            raise NodeUnreachable(
                f"{name} is kept on no majority of the control-plane nodes: {missed[0]}",
                hint="see what is wrong: appliance status",
                details=missed[1:],
            )
        return missed

    def spread(self) -> tuple[str, ...]:
        """Give every control-plane node the documents that it lacks, as one that joined lacks all.

        Returns:
            One sentence for each node that has them not.

        Raises:
            NodeUnreachable: no control-plane node answers.
        """
        found = self._newest(_EACH.format(path=FOLDER))
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for name, text in found.items():
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(text.encode()), 0o600
                archive.addfile(entry, io.BytesIO(text.encode()))
        script = _ADD.format(path=FOLDER, above=_ABOVE)
        return _failures(self._everywhere(script, packed.getvalue()))

    def get(self, name: str) -> str | None:
        """The newest copy of a document; None when no node that answers has it.

        Raises:
            NodeUnreachable: no control-plane node answers.
        """
        found = []
        for said in self._answers(_GET.format(path=_path(name))):
            written, _, text = said.output.partition("\n")
            if said.code == 0:
                found.append((int(written), text))
        return max(found)[1] if found else None

    def names(self, folder: str) -> tuple[str, ...]:
        """The names of all documents in a folder, on any node: ``<folder>/...``, sorted.

        Raises:
            NodeUnreachable: no control-plane node answers.
        """
        said = self._answers(_NAMES.format(path=_path(folder)))
        return tuple(
            sorted({f"{folder}/{line}" for answer in said for line in answer.output.splitlines()})
        )

    def everything(self, folder: str) -> dict[str, str]:
        """Every document in a folder, on any node, the newest copy of each: name -> its text.

        Raises:
            NodeUnreachable: no control-plane node answers.
        """
        newest = self._newest(_EACH.format(path=_path(folder)))
        return {f"{folder}/{name}": text for name, text in newest.items()}

    def _newest(self, script: str) -> dict[str, str]:
        found: dict[str, tuple[int, str]] = {}
        for said in self._answers(script):
            for name, copy in _documents(said.output.encode()):
                found[name] = max(copy, found.get(name, copy))
        return {name: text for name, (_, text) in sorted(found.items())}

    def _answers(self, script: str) -> Iterator[Answer]:
        """What the nodes that can be reached say.

        Raises:
            NodeUnreachable: none can.
        """
        answers = self._everywhere(script)
        if all(isinstance(said, str) for _, said in answers):
            raise NodeUnreachable(
                f"no control-plane node answers: {answers[0][1]}",
                hint="see what is wrong: appliance status",
            )
        return (said for _, said in answers if not isinstance(said, str))

    def _everywhere(self, script: str, stdin: bytes = b"") -> Sequence[tuple[Node, Answer | str]]:
        def ask(node: Node) -> tuple[Node, Answer | str]:
            try:
                return node, self._nodes.run_as_root(node, script, stdin=stdin, timeout=SECONDS)
            except NodeUnreachable as error:
                return node, error.message

        masters = self._site.control_plane
        with ThreadPoolExecutor(max_workers=len(masters)) as pool:
            return list(pool.map(ask, masters))


def _failures(answers: Sequence[tuple[Node, Answer | str]]) -> tuple[str, ...]:
    return tuple(
        f"{node.name}: {said if isinstance(said, str) else said.errors.strip()}"
        for node, said in answers
        if isinstance(said, str) or said.code != 0
    )


def _documents(said: bytes) -> Iterator[tuple[str, tuple[int, str]]]:
    """Read ``<written> <bytes> <name>`` and then as many bytes, again and again."""
    while said:
        head, _, said = said.partition(b"\n")
        written, size, name = head.decode().split(" ", 2)
        yield name, (int(written), said[: int(size)].decode(errors="replace"))
        said = said[int(size) :]


def _path(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r} is no name of a document", hint="letters, digits, . _ - and /")
    return shlex.quote(f"{FOLDER}/{name}")
