"""Documents stored on every control-plane node: another laptop reads what this one wrote.

They are in ``/var/lib/appliance/archive``, readable only by root, and do not need the Kubernetes
API. A document must not contain a secret.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import shlex
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from appliance.adapters.ssh.call import Answer, last_line
from appliance.errors import ConfigError, NodeUnreachable
from appliance.model.documents.places import ARCHIVE

if TYPE_CHECKING:
    from appliance.adapters.ssh.nodes import SshNodes
    from appliance.model.site.settings import Node, Site

# The parent folder stays readable (the web server reads the bundle there); the archive may be the
# first to create it.
FOLDER = ARCHIVE
SECONDS = 15
_ABOVE = shlex.quote(str(Path(FOLDER).parent))
_NAME = re.compile(r"[a-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*")
_NAME_LETTERS = 1000
_TIME = re.compile(r"[0-9]{1,11}")
_LOOK = "see what is wrong: appliance status"
# The exit code for a missing document; any other code is a failure.
_ABSENT = 44
# Written to a temporary file, compared and moved: no reader ever sees an incomplete document, even
# if the laptop dies. Its time is the writer's, because nodes' clocks differ, and is later than that
# of the copy it replaces: two puts that each reach a majority share a node, so that the later one
# is the newest even if its writer's clock is behind. The parent folder belongs to other parts too.
_PUT = """umask 022; mkdir -p {above}; umask 077; f={path}; mkdir -p "${{f%/*}}" \
&& t=$(mktemp "${{f%/*}}/.XXXXXX") || exit 1
trap 'rm -f "$t"' EXIT
cat > "$t" || exit 1
[ "$(sha256sum < "$t")" = "{digest}  -" ] || {{ echo "the document is incomplete" >&2; exit 1; }}
at={written}; w=$(stat -c %Y "$f" 2>/dev/null) && [ "$w" -ge "$at" ] && at=$((w + 1))
touch -d "@$at" "$t" && sync "$t" && mv -f "$t" "$f" """
_GET = """f={path}; [ -e "$f" ] || exit {absent}; {{ stat -c %Y - && cat; }} < "$f" """
# Files whose name is not that of a document are foreign and ignored.
_FIND = """find . -ignore_readdir_race -type f ! -path '*/.*' ! -path '*[!A-Za-z0-9._/-]*' \
-printf '%P\\n'"""
_NAMES = """[ -e {path} ] || exit 0; cd {path} && \
{find}"""
_EACH = """[ -e {path} ] || exit 0; cd {path} && \
l=$({find}) || exit 1
for f in $l; do {{ stat -c "%Y $f" - && base64 -w0 && echo; }} < "$f" || exit 1; done"""
# Documents that a node has already stay: they are as new as ours, or newer.
_ADD = """umask 022; mkdir -p {above}; umask 077; mkdir -p {path} && t=$(mktemp -d {path}/.XXXXXX) \
|| exit 1
trap 'rm -rf "$t"' EXIT
tar -xf - -C "$t" && cd "$t" && find . -type f -printf '%P\\n' | while read -r f; do \
mkdir -p {path}/"${{f%/*}}" || exit 1; [ -e {path}/"$f" ] && continue; \
sync "$f" && mv "$f" {path}/"$f" || exit 1; done"""


class ControlPlaneArchive:
    """Puts and gets documents by name, e.g. ``passports/w1.json``.

    Args:
        site: the site of the control-plane nodes.
        nodes: SSH to the nodes.
        clock: the time of this machine, in UTC epoch seconds.
    """

    def __init__(self, site: Site, nodes: SshNodes, clock: Callable[[], float] = time.time) -> None:
        self._site = site
        self._nodes = nodes
        self._clock = clock

    def put(self, name: str, text: str) -> tuple[str, ...]:
        """Write a document to every control-plane node, atomically.

        Returns:
            One sentence for each node without it; they are fewer than half.

        Raises:
            NodeUnreachable: fewer than a majority of the control-plane nodes have it.
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
                f"{name} could not be stored on a majority of the control-plane nodes: {missed[0]}",
                hint=_LOOK,
                details=missed[1:],
            )
        return missed

    def spread(self) -> tuple[str, ...]:
        """Copy missing documents to every control-plane node; a node that just joined lacks all.

        Returns:
            One sentence for each node that did not get them.

        Raises:
            NodeUnreachable: no control-plane node answers and can read its documents.
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
        """The newest copy of a document; None if no node that answers has it.

        Raises:
            NodeUnreachable: no control-plane node answers and can read its documents.
        """
        copies = []
        for answer in self._answers(_GET.format(path=_path(name), absent=_ABSENT), _is_copy):
            written, _, text = answer.output.partition("\n")
            if answer.code == 0:
                copies.append((int(written), text))
        return max(copies)[1] if copies else None

    def names(self, folder: str) -> tuple[str, ...]:
        """The names of all documents in a folder, on any node: ``<folder>/...``, sorted.

        Raises:
            NodeUnreachable: no control-plane node answers and can read its documents.
        """
        answers = self._answers(_NAMES.format(path=_path(folder), find=_FIND))
        return tuple(
            sorted(
                f"{folder}/{line}"
                for line in {line for answer in answers for line in answer.output.splitlines()}
                if _is_name(f"{folder}/{line}")
            )
        )

    def everything(self, folder: str) -> dict[str, str]:
        """Every document in a folder, on any node, the newest copy of each: name -> its text.

        Raises:
            NodeUnreachable: no control-plane node answers and can read its documents.
        """
        return {
            f"{folder}/{name}": content.decode(errors="replace")
            for name, (_, content) in self._newest(_path(folder)).items()
        }

    def _newest(self, path: str) -> dict[str, tuple[int, bytes]]:
        """Each document below a quoted path: name -> the time it was written, and its content.

        Root on one node controls these names, which become files of root on others and words of a
        command: invalid names are ignored, here and by the search on the node.

        Raises:
            NodeUnreachable: no control-plane node answers and can read its documents.
        """
        newest: dict[str, tuple[int, bytes]] = {}
        for answer in self._answers(_EACH.format(path=path, find=_FIND), _is_listing):
            for name, copy in _documents(answer.output):
                if _is_name(name):
                    newest[name] = max(copy, newest.get(name, copy))
        return dict(sorted(newest.items()))

    def _answers(
        self, script: str, is_right: Callable[[str], bool] = lambda _: True
    ) -> list[Answer]:
        """The answers of the nodes that are reachable and can read their documents.

        Args:
            script: the script to run.
            is_right: whether an answer has the expected form; a node with another answer counts
                as failed.

        Raises:
            NodeUnreachable: no node gave a valid answer.
        """
        results = [
            (node, _formed(node, answer, is_right)) for node, answer in self._everywhere(script)
        ]
        answers = [answer for _, answer in results if not isinstance(answer, NodeUnreachable)]
        answers = [answer for answer in answers if answer.code in (0, _ABSENT)]
        if not answers:
            first, *others = _failures(results)
            result = results[0][1]
            hint = result.hint if isinstance(result, NodeUnreachable) else None
            raise NodeUnreachable(
                f"no control-plane node answers: {first}", hint=hint or _LOOK, details=others
            )
        return answers

    def _everywhere(
        self, script: str, stdin: bytes = b""
    ) -> Sequence[tuple[Node, Answer | NodeUnreachable]]:
        def ask(node: Node) -> tuple[Node, Answer | NodeUnreachable]:
            try:
                return node, self._nodes.run_as_root(node, script, stdin=stdin, timeout=SECONDS)
            except NodeUnreachable as error:
                return node, error

        control_plane = self._site.control_plane
        with ThreadPoolExecutor(max_workers=len(control_plane)) as pool:
            return list(pool.map(ask, control_plane))


def _failures(answers: Sequence[tuple[Node, Answer | NodeUnreachable]]) -> tuple[str, ...]:
    """One sentence for each node that did not answer or whose script failed."""
    return tuple(
        answer.message
        if isinstance(answer, NodeUnreachable)
        else f"{node.name}: {last_line(answer.errors) or f'code {answer.code}'}"
        for node, answer in answers
        if isinstance(answer, NodeUnreachable) or answer.code not in (0, _ABSENT)
    )


def _formed(
    node: Node, answer: Answer | NodeUnreachable, is_right: Callable[[str], bool]
) -> Answer | NodeUnreachable:
    if isinstance(answer, NodeUnreachable) or answer.code != 0 or is_right(answer.output):
        return answer
    return NodeUnreachable(
        f"{node.name}: its archive cannot be read: the answer has an unexpected form",
        hint=f"see what its shell's start files print: ssh {node.address.ip} true",
        answers=True,
    )


def _is_copy(output: str) -> bool:
    """Whether the output is a time in whole seconds, then a document."""
    return _TIME.fullmatch(output.partition("\n")[0]) is not None


def _is_listing(output: str) -> bool:
    """Whether the output is pairs of lines: a time and a name, then the content in base 64."""
    lines = output.split("\n")
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


def _documents(output: str) -> Iterator[tuple[str, tuple[int, bytes]]]:
    """Read pairs of lines: ``<written> <name>``, then the content."""
    lines = output.split("\n")
    for head, content in zip(lines[:-1:2], lines[1::2], strict=True):
        written, name = head.split(" ", 1)
        yield name, (int(written), base64.b64decode(content))


def _is_name(text: str) -> bool:
    return len(text) <= _NAME_LETTERS and _NAME.fullmatch(text) is not None


def _path(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} is not a valid name of a document", hint="use letters, digits, . _ - and /"
        )
    return shlex.quote(f"{FOLDER}/{name}")
