"""Reads YAML files of people into plain data, with the line of every key.

Only plain literals are accepted: Jinja, tags, INI and host ranges are refused with their line, so
that Ansible reads what was checked. What must not be here: the meaning of a key.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

import yaml

from appliance.adapters.site.vault_files import conflict_fault
from appliance.model.site.files.diagnostics import Document, SiteFault, Where, dotted
from appliance.model.site.vault_ref import TEMPLATE

_PLAIN_TAGS: Final = {
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "timestamp")
}
_MERGE: Final = "tag:yaml.org,2002:merge"
_STR: Final = "tag:yaml.org,2002:str"
_INI_SECTION: Final = re.compile(r"\[[A-Za-z_][\w.-]*(:(children|vars))?\]\s*(#.*)?")
_TAB_INDENT: Final = re.compile(r" *\t\s*\S")
_MOST_NODES: Final = 50_000
_DEEPEST: Final = 40
MOST_BYTES: Final = 2 << 20
_INTEGERS: Final = range(-(1 << 63), 1 << 63)
# Lone surrogates and control characters; a tab or a line break is text.
_NOT_TEXT: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_PLAIN_TEXT: Final = "remove the special characters"
_UNREAD: Final = object()
# Errors of PyYAML's constructors for a value that does not match its tag.
NO_VALUE: Final = (
    *(ValueError, ArithmeticError, LookupError, AttributeError, TypeError, RecursionError),
    yaml.YAMLError,
)


def read_yaml(content: bytes, file: str) -> tuple[Document, tuple[SiteFault, ...]]:
    """Read one file; unreadable parts are faults, and are marked as broken in the document.

    Args:
        content: the bytes of the file.
        file: its name in faults.
    """
    root, fault = _root(content, file)
    if fault is not None or root is None:
        return Document(file, {}, {}, frozenset({()})), (fault,) if fault else ()
    reader = _Reader(file)
    data = reader.mapping(root, ())
    document = Document(file, data, reader.lines, frozenset(reader.broken))
    return document, tuple(reader.faults)


def mapping_fault(content: bytes, file: str) -> SiteFault | None:
    """Why a file is no YAML mapping; its values may be anything, other than in a site's files."""
    return _root(content, file)[1]


def _root(content: bytes, file: str) -> tuple[yaml.MappingNode | None, SiteFault | None]:
    text, fault = _decode(content, file)
    if len(content) > MOST_BYTES:
        fault = SiteFault(file, 1, f"the file is larger than {MOST_BYTES} bytes", "make it smaller")
    root: yaml.Node | None = None
    if fault is None:
        fault = conflict_fault(text, file) or _not_yaml(text, file)
    if fault is None:
        root, fault = _compose(text, file)
    if fault is None and not isinstance(root, yaml.MappingNode):
        fault = SiteFault(
            file, 1, "the file is not a mapping", "write lines of the form key: value"
        )
    return (root if isinstance(root, yaml.MappingNode) else None), fault


def _decode(content: bytes, file: str) -> tuple[str, SiteFault | None]:
    try:
        return content.decode("utf-8-sig"), None
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        return "", SiteFault(
            file,
            line,
            f"the byte 0x{content[error.start]:02x} is not UTF-8 text",
            "save the file as UTF-8",
        )


def _not_yaml(text: str, file: str) -> SiteFault | None:
    content = [
        (number, line.strip())
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#") and line.strip() != "---"
    ]
    if not content:
        return SiteFault(file, 1, "the file is empty", "write its keys")
    number, first = content[0]
    if _INI_SECTION.fullmatch(first) or first.startswith(";"):
        return SiteFault(
            file, number, f"{first!r} is INI, not YAML", "write it as YAML: all: children: ..."
        )
    return None


def _compose(text: str, file: str) -> tuple[yaml.Node | None, SiteFault | None]:
    try:
        roots = list(yaml.compose_all(text, Loader=_Loader))
    except (yaml.YAMLError, *NO_VALUE) as error:
        return None, _syntax_fault(error, text, file)
    if len(roots) > 1:
        second = roots[1].start_mark.line + 1
        return None, SiteFault(
            file, second, "a second YAML document begins here", "keep one document in the file"
        )
    root = roots[0] if roots else None
    if root is None:
        return None, SiteFault(file, 1, "the file is empty", "write its keys")
    return root, None


def _syntax_fault(error: Exception, text: str, file: str) -> SiteFault:
    if not isinstance(error, yaml.YAMLError):
        return SiteFault(file, 1, f"YAML cannot be read: {error}", "write plain keys and values")
    if isinstance(error, _Exceeded) and error.problem_mark is not None:
        line = error.problem_mark.line + 1
        return SiteFault(file, line, str(error.problem), "make the file smaller")
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        # A reader error (a control character) has a position, not a line.
        position = getattr(error, "position", 0)
        line = text.count("\n", 0, position) + 1
        return SiteFault(file, line, "a control character", "delete it, or put it in quotes as \\x")
    line = error.problem_mark.line
    lines = text.splitlines()
    for number in (line, line - 1):
        if 0 <= number < len(lines) and _TAB_INDENT.match(lines[number]):
            return SiteFault(
                file, number + 1, "the line is indented with a tab", "indent it with spaces"
            )
    problem = (error.problem or "it cannot be read").replace("\n", " ")
    shown = lines[line].strip() if line < len(lines) else "the end of the file"
    if "alias" in problem:
        return SiteFault(file, line + 1, problem, "write the anchor (&name) before its use (*name)")
    return SiteFault(
        file,
        line + 1,
        f"YAML syntax: {problem}, at {shown!r}",
        "check the indentation, the colons, and that quotes and brackets are closed here and above",
    )


def _is_beyond(value: object) -> bool:
    """Whether a number has no end, or more than 64 bits."""
    if isinstance(value, float):
        return not math.isfinite(value)
    return isinstance(value, int) and value not in _INTEGERS


class Limits(yaml.composer.Composer):
    """Composes nodes within limits of depth and number, for a loader of PyYAML."""

    most_nodes = _MOST_NODES
    _level = 0
    _nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose a node and all below it; a limit is an error with its line."""
        event: Any = self.peek_event()  # type: ignore[attr-defined]
        mark = event.start_mark
        self._level += 1
        self._nodes += 1
        if self._level > _DEEPEST:
            raise _Exceeded(None, None, f"more than {_DEEPEST} nested levels", mark)
        if self._nodes > self.most_nodes:
            raise _Exceeded(None, None, f"more than {self.most_nodes} values", mark)
        try:
            return super().compose_node(parent, index)
        finally:
            self._level -= 1


class _Loader(Limits, yaml.SafeLoader):
    """For the files of a site."""


class _Exceeded(yaml.MarkedYAMLError):
    """A limit that no site meets."""


class _Reader:
    """Turns YAML nodes into data; records lines, faults and unreadable keys."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.lines: dict[Where, int] = {}
        self.faults: list[SiteFault] = []
        self.broken: set[Where] = set()
        self._open: set[int] = set()
        self._count = 0
        self._constructor = yaml.SafeLoader("")

    def mapping(self, node: yaml.MappingNode, where: Where) -> dict[str, Any]:
        """Read a mapping; merged keys (``<<``) come first and are overridden."""
        data: dict[str, Any] = {}
        own: dict[str, int] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                self._merge(value_node, where, data, own)
                continue
            key = self._key(key_node, where)
            if key is None:
                continue
            line = key_node.start_mark.line + 1
            here = (*where, key)
            if key in own:
                self._refuse(
                    here,
                    line,
                    f"the key {dotted(here)!r} is written twice, first on line {own[key]}",
                    "keep one of the two",
                    give_up=False,
                )
                continue
            own[key] = line
            self.lines[here] = line
            data[key] = self._value(value_node, here, line)
        return data

    def _merge(
        self, node: yaml.Node, where: Where, data: dict[str, Any], own: dict[str, int]
    ) -> None:
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        for source in sources:
            if not isinstance(source, yaml.MappingNode):
                line = node.start_mark.line + 1
                self._refuse(
                    where, line, "<< merges a value that is not a mapping", "name a mapping"
                )
                continue
            merged = self._value(source, where, source.start_mark.line + 1)
            for key, value in (merged or {}).items():
                if key not in data and key not in own:
                    data[key] = value

    def _key(self, node: yaml.Node, where: Where) -> str | None:
        line = node.start_mark.line + 1
        if isinstance(node, yaml.MappingNode) and node.flow_style:
            self._refuse(where, line, "Jinja ({{ ... }}) is not allowed", "write the value itself")
            return None
        if not isinstance(node, yaml.ScalarNode):
            self._refuse(where, line, "the key is not text", "write a plain name before the colon")
            return None
        if _NOT_TEXT.search(node.value):
            self._refuse(where, line, f"the key {node.value[:80]!r} is not plain text", _PLAIN_TEXT)
            return None
        if TEMPLATE.search(node.value):
            self._refuse(where, line, "Jinja is not allowed", "write the key itself")
            return None
        if node.tag != _STR:
            self._refuse(
                where,
                line,
                f"YAML reads the key {node.value!r} as {node.tag.rsplit(':', 1)[-1]}, not as text",
                f"put it in quotes: {node.value!r}",
                give_up=False,
            )
            return None
        return str(node.value)

    def _value(self, node: yaml.Node, where: Where, line: int) -> Any:
        self._count += 1
        if id(node) in self._open:
            return self._refuse(where, line, "an anchor contains itself", "write the value out")
        if self._count > _MOST_NODES:
            if self._count == _MOST_NODES + 1:
                self._refuse(
                    where, line, f"anchors expand to more than {_MOST_NODES} values",
                    "write the values out",
                )  # fmt: skip
            return None
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, where)
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode) and node.tag.endswith(":map"):
                return self.mapping(node, where)
            if isinstance(node, yaml.SequenceNode) and node.tag.endswith(":seq"):
                return self._sequence(node, where)
        finally:
            self._open.discard(id(node))
        return self._tagged(node, where)

    def _sequence(self, node: yaml.SequenceNode, where: Where) -> list[Any]:
        items = []
        for index, item in enumerate(node.value):
            here = (*where, index)
            self.lines[here] = item.start_mark.line + 1
            items.append(self._value(item, here, self.lines[here]))
        return items

    def _scalar(self, node: yaml.ScalarNode, where: Where) -> Any:
        if node.tag not in _PLAIN_TAGS:
            return self._tagged(node, where)
        line = node.start_mark.line + 1
        if node.tag == _STR and (found := TEMPLATE.search(node.value)):
            line += node.value[: found.start()].count("\n") + (node.style in ("|", ">"))
            return self._refuse(
                where,
                line,
                f"{dotted(where)!r} has Jinja, which is not allowed",
                "write the value itself",
            )
        if _NOT_TEXT.search(node.value):
            return self._refuse(
                where, line, f"{dotted(where)!r} has a control character or invalid Unicode",
                _PLAIN_TEXT,
            )  # fmt: skip
        try:
            value = self._constructor.construct_object(node)
        except NO_VALUE:
            value = _UNREAD
        if value is _UNREAD or _is_beyond(value):
            return self._refuse(
                where, line, f"{node.value[:80]!r} cannot be read", "put it in quotes if it is text"
            )
        return value

    def _tagged(self, node: yaml.Node, where: Where) -> None:
        line = node.start_mark.line + 1
        remedy = "write a plain value"
        if node.tag in ("!vault", "!vault-encrypted"):
            remedy = "keep secrets in group_vars/all/vault.yml, which is encrypted as a whole"
        tag = _NOT_TEXT.sub("?", node.tag)[:80]
        self._refuse(where, line, f"the tag {tag} is not allowed", remedy)

    def _refuse(
        self, where: Where, line: int, problem: str, remedy: str, *, give_up: bool = True
    ) -> None:
        self.faults.append(SiteFault(self.file, line, problem, remedy))
        if give_up:
            self.broken.add(where)
