"""Documents kept on every control-plane node, so that another laptop finds what this one wrote.

They lie under ``/var/lib/appliance/archive``, readable by root alone, and survive an API that does
not answer. No secret belongs in one.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import shlex
import tarfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from appliance.adapters.ssh_call import last_line
from appliance.errors import ConfigError, NodeUnreachable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from appliance.adapters.ssh import SshNodes
    from appliance.adapters.ssh_call import Answer
    from appliance.model.site import Node, Site

# Others read what lies beside it, the web server the bundle: it may be the archive that makes it.
FOLDER = "/var/lib/appliance/archive"
SECONDS = 15
_ABOVE = shlex.quote(str(Path(FOLDER).parent))
_NAME = re.compile(r"[a-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*")
_NAME_LETTERS = 1000
_TIME = re.compile(r"[0-9]{1,11}")
_LOOK = "see what is wrong: appliance status"
# By this code a script says that there is no such document; others say that it could not look.
_ABSENT = 44
# Written beside its name, compared and moved there: nobody ever reads half of it, and half of it is
# all that comes from a laptop that dies. Its time is the writer's, as nodes' clocks differ, and is
# later than that of the copy it replaces: two puts that each reach a majority meet on a node, so
# the later one is the newest even where its writer's clock is behind.
# The folder above is other parts' too, and stays open to them.
_PUT = """umask 022; mkdir -p {above}; umask 077; f={path}; mkdir -p "${{f%/*}}" \
&& t=$(mktemp "${{f%/*}}/.XXXXXX") || exit 1
trap 'rm -f "$t"' EXIT
cat > "$t" || exit 1
[ "$(sha256sum < "$t")" = "{digest}  -" ] || {{ echo "what arrived is not whole" >&2; exit 1; }}
at={written}; w=$(stat -c %Y "$f" 2>/dev/null) && [ "$w" -ge "$at" ] && at=$((w + 1))
touch -d "@$at" "$t" && sync "$t" && mv -f "$t" "$f" """
_GET = """f={path}; [ -e "$f" ] || exit {absent}; {{ stat -c %Y - && cat; }} < "$f" """
# What has another name than a document was put there by somebody else, and is left out.
_FIND = """find . -ignore_readdir_race -type f ! -path '*/.*' ! -path '*[!A-Za-z0-9._/-]*' \
-printf '%P\\n'"""
_NAMES = """[ -e {path} ] || exit 0; cd {path} && \
{find}"""
_EACH = """[ -e {path} ] || exit 0; cd {path} && \
l=$({find}) || exit 1
for f in $l; do {{ stat -c "%Y $f" - && base64 -w0 && echo; }} < "$f" || exit 1; done"""
# Those that a node has already stay: they are as new as ours, or newer.
_ADD = """umask 022; mkdir -p {above}; umask 077; mkdir -p {path} && t=$(mktemp -d {path}/.XXXXXX) \
|| exit 1
trap 'rm -rf "$t"' EXIT
tar -xf - -C "$t" && cd "$t" && find . -type f -printf '%P\\n' | while read -r f; do \
mkdir -p {path}/"${{f%/*}}" || exit 1; [ -e {path}/"$f" ] && continue; \
sync "$f" && mv "$f" {path}/"$f" || exit 1; done"""


class ControlPlaneArchive:
    """Puts and gets documents by name, e.g. ``passports/w1.json``.

    Args:
        site: whose control-plane nodes keep them.
        nodes: SSH to them.
        clock: the time of this machine, in UTC epoch seconds.
    """

    def __init__(self, site: Site, nodes: SshNodes, clock: Callable[[], float] = time.time) -> None:
        self._site = site
        self._nodes = nodes
        self._clock = clock

    def put(self, name: str, text: str) -> tuple[str, ...]:
        """Write a document on every control-plane node, whole or not at all.

        Returns:
            One sentence for each node that has it not; they are fewer than half.

        Raises:
            NodeUnreachable: it is on no majority of the control-plane nodes.
        """
        content = text.encode()
        script = _PUT.format(
            path=_path(name),
            above=_ABOVE,
            digest=hashlib.sha256(content).hexdigest(),
            written=int(self._clock()),
        )
        answers = self._everywhere(script, content)
        missed = _failures(answers)
        if 2 * (len(answers) - len(missed)) <= len(answers):
            raise NodeUnreachable(
                f"{name} is kept on no majority of the control-plane nodes: {missed[0]}",
                hint=_LOOK,
                details=missed[1:],
            )
        return missed

    def spread(self) -> tuple[str, ...]:
        """Give every control-plane node the documents that it lacks, as one that joined lacks all.

        Returns:
            One sentence for each node that has them not.

        Raises:
            NodeUnreachable: no control-plane node answers, or can read what it keeps.
        """
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for name, (written, content) in self._newest(FOLDER).items():
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode, entry.mtime = len(content), 0o600, written
                archive.addfile(entry, io.BytesIO(content))
        script = _ADD.format(path=FOLDER, above=_ABOVE)
        return _failures(self._everywhere(script, packed.getvalue()))

    def get(self, name: str) -> str | None:
        """The newest copy of a document; None when no node that answers has it.

        Raises:
            NodeUnreachable: no control-plane node answers, or can read what it keeps.
        """
        found = []
        for said in self._answers(_GET.format(path=_path(name), absent=_ABSENT), _is_copy):
            written, _, text = said.output.partition("\n")
            if said.code == 0:
                found.append((int(written), text))
        return max(found)[1] if found else None

    def names(self, folder: str) -> tuple[str, ...]:
        """The names of all documents in a folder, on any node: ``<folder>/...``, sorted.

        Raises:
            NodeUnreachable: no control-plane node answers, or can read what it keeps.
        """
        said = self._answers(_NAMES.format(path=_path(folder), find=_FIND))
        return tuple(
            sorted(
                f"{folder}/{line}"
                for line in {line for answer in said for line in answer.output.splitlines()}
                if _is_name(f"{folder}/{line}")
            )
        )

    def everything(self, folder: str) -> dict[str, str]:
        """Every document in a folder, on any node, the newest copy of each: name -> its text.

        Raises:
            NodeUnreachable: no control-plane node answers, or can read what it keeps.
        """
        return {
            f"{folder}/{name}": content.decode(errors="replace")
            for name, (_, content) in self._newest(_path(folder)).items()
        }

    def _newest(self, path: str) -> dict[str, tuple[int, bytes]]:
        """Each document below a path as a shell writes it: name -> when it was written, and what.

        Root on one node gives these names, which become files of root on others and words of a
        command: what no document is called is left out, as our own search on a node does.

        Raises:
            NodeUnreachable: no control-plane node answers, or can read what it keeps.
        """
        found: dict[str, tuple[int, bytes]] = {}
        for said in self._answers(_EACH.format(path=path, find=_FIND), _is_listing):
            for name, copy in _documents(said.output):
                if _is_name(name):
                    found[name] = max(copy, found.get(name, copy))
        return dict(sorted(found.items()))

    def _answers(
        self, script: str, is_right: Callable[[str], bool] = lambda _: True
    ) -> list[Answer]:
        """What the nodes say that can be reached, and can read what they keep.

        Args:
            script: what they run.
            is_right: whether what one says has the form that it must have; a node that says
                anything else is one that could not look.

        Raises:
            NodeUnreachable: none can.
        """
        asked = [(node, _formed(node, said, is_right)) for node, said in self._everywhere(script)]
        told = [said for _, said in asked if not isinstance(said, NodeUnreachable)]
        told = [said for said in told if said.code in (0, _ABSENT)]
        if not told:
            first, *others = _failures(asked)
            said = asked[0][1]
            hint = said.hint if isinstance(said, NodeUnreachable) else None
            raise NodeUnreachable(
                f"no control-plane node answers: {first}", hint=hint or _LOOK, details=others
            )
        return told

    def _everywhere(
        self, script: str, stdin: bytes = b""
    ) -> Sequence[tuple[Node, Answer | NodeUnreachable]]:
        def ask(node: Node) -> tuple[Node, Answer | NodeUnreachable]:
            try:
                return node, self._nodes.run_as_root(node, script, stdin=stdin, timeout=SECONDS)
            except NodeUnreachable as error:
                return node, error

        masters = self._site.control_plane
        with ThreadPoolExecutor(max_workers=len(masters)) as pool:
            return list(pool.map(ask, masters))


def _failures(answers: Sequence[tuple[Node, Answer | NodeUnreachable]]) -> tuple[str, ...]:
    """One sentence for each node that did not answer, or could not do what it was asked."""
    return tuple(
        said.message
        if isinstance(said, NodeUnreachable)
        else f"{node.name}: {last_line(said.errors) or f'code {said.code}'}"
        for node, said in answers
        if isinstance(said, NodeUnreachable) or said.code not in (0, _ABSENT)
    )


def _formed(
    node: Node, said: Answer | NodeUnreachable, is_right: Callable[[str], bool]
) -> Answer | NodeUnreachable:
    if isinstance(said, NodeUnreachable) or said.code != 0 or is_right(said.output):
        return said
    return NodeUnreachable(
        f"{node.name}: what it keeps cannot be told: it answers in another form than asked",
        hint=f"what do its shell's start files print? ssh {node.address.ip} true",
        answers=True,
    )


def _is_copy(said: str) -> bool:
    """Whether it is a time in whole seconds, then a document."""
    return _TIME.fullmatch(said.partition("\n")[0]) is not None


def _is_listing(said: str) -> bool:
    """Whether it is pairs of lines: a time and a name, then the content in base 64."""
    lines = said.split("\n")
    if lines.pop() or len(lines) % 2:
        return False
    heads = [head.partition(" ") for head in lines[::2]]
    return all(_TIME.fullmatch(at) and name for at, _, name in heads) and all(
        _is_base64(content) for content in lines[1::2]
    )


def _is_base64(content: str) -> bool:
    try:
        base64.b64decode(content, validate=True)
    except ValueError:
        return False
    return True


def _documents(said: str) -> Iterator[tuple[str, tuple[int, bytes]]]:
    """Read a line ``<written> <name>`` and one with the content, again and again."""
    lines = said.split("\n")
    for head, content in zip(lines[:-1:2], lines[1::2], strict=True):
        written, name = head.split(" ", 1)
        yield name, (int(written), base64.b64decode(content))


def _is_name(text: str) -> bool:
    return len(text) <= _NAME_LETTERS and _NAME.fullmatch(text) is not None


def _path(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r} is no name of a document", hint="letters, digits, . _ - and /")
    return shlex.quote(f"{FOLDER}/{name}")
