"""Hand-made settings of a cluster as data that is kept: typed, whole, and without secrets.

What of a document is hand-made is decided by :mod:`appliance.model.upgrade.losses`. Here its value
is taken from the document, and put into another one: the lab's. What must not be here: reading or
writing documents of a node or of the API.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

from pydantic import Field

from appliance.model.documents.strict_json import read_json
from appliance.model.documents.typed_json import Line
from appliance.model.support.forms import marked
from appliance.model.support.redaction import redacted
from appliance.model.upgrade.evidence import Silence
from appliance.model.upgrade.handmade.kubelet_units import UNIT_FILES
from appliance.model.upgrade.handmade.loss import Loss, writer
from appliance.model.upgrade.handmade.settings_diff import MOST_LEVELS, shown
from appliance.model.upgrade.handmade.static_pods import COMPONENTS, arguments
from appliance.model.upgrade.handmade.told import is_after_secret, is_secret, told, told_value
from appliance.model.upgrade.losses import Carrier, Documents, find_losses

KUBELET: Final = "kubelet"
ADD_ONS: Final = ("coredns", "kube-proxy")
# Of a static pod or an add-on: what a name begins with that is no argument of its program.
SECTIONS: Final = ("resources", "env", "volumes", "nodeSelector")
WHOLE: Final = ("args", "command", "tolerations", "priorityClassName", "containers")
# Every other field of a pod or of a workload is told, and not made in a lab.
_FIELDS: Final = ("container.", "metadata.", "pod.", "spec.", "volumeMounts.")
NOT_MADE: Final = "a lab does not change that field of a pod"
UNIT_NOT_MADE: Final = "a lab keeps the kubelet's unit as this tool writes it"
FILE_NOT_COPIED: Final = "it names a file, and files of nodes are not copied"
NOT_KEPT: Final = "its value was not kept whole"
SECRET: Final = "its value is secret, and was not kept"  # noqa: S105  (a sentence)
# A worker may write anything into its files.
_LONGEST: Final = 4096
MOST_SETTINGS: Final = 200


@dataclass(frozen=True)
class Handmade:
    """One hand-made setting.

    Attributes:
        part: ``kubelet``, a file of its unit, ``coredns``, ``kube-proxy``, or a component of the
            control plane.
        keys: where it is in its document, e.g. ``("resources", "limits", "memory")``.
        was: the value on the site, for people; without secrets.
        will: what kubeadm renders, for people.
        there: False: the site has no value where kubeadm renders one.
        value: of JSON; None where it could not be kept.
        secret: its value was taken out.
    """

    part: Annotated[str, Field(pattern=r"^[a-z][a-z-]{1,40}$")]
    keys: tuple[Line, ...]
    was: Line
    will: Line
    there: bool = True
    value: Any = None
    secret: bool = False

    @property
    def name(self) -> str:
        """As a plan of an upgrade names it."""
        return shown(f"{self.part}.{'.'.join(self.keys)}")

    def sentence(self) -> str:
        """The difference in one line."""
        return f"{self.name} is {self.was}; {writer(self.part)} {self.will}"


def handmade_of(found: Documents) -> Mapping[str, tuple[Handmade, ...]] | Silence:
    """Node -> its hand-made settings; those of the cluster as a whole are under an empty name.

    Nodes whose files were not read are left out; every other one is a key.
    """
    read = replace(
        found,
        manifests={n: m for n, m in found.manifests.items() if _is_read(m)},
        kubelet_files={n: d for n, d in found.kubelet_files.items() if _is_read(d)},
        kubelet_units={n: d for n, d in found.kubelet_units.items() if _is_read(d)},
    )
    losses = find_losses(read, Carrier())
    if isinstance(losses, Silence):
        return losses
    half_read = found.manifests.keys() - read.manifests.keys()
    half_read |= found.kubelet_units.keys() - read.kubelet_units.keys()
    nodes = [node for node in read.kubelet_files if node not in half_read]
    lost: dict[str, list[Loss]] = {"": [], **{node: [] for node in nodes}}
    for loss in losses:
        for node in loss.nodes or ("",):
            if node in lost:
                lost[node].append(loss)
    return {node: tuple(_bounded(node, some, read)) for node, some in lost.items()}


def _bounded(node: str, losses: Sequence[Loss], found: Documents) -> Iterator[Handmade]:
    """The first ones, and how many more there are: nobody makes so many by hand."""
    yield from (_handmade(loss, node, found) for loss in losses[:MOST_SETTINGS])
    more = len(losses) - MOST_SETTINGS
    if more > 0:
        part = losses[-1].name.partition(".")[0]
        yield Handmade(part, (f"and {more} more",), "not kept", "unknown")


def _is_read(document: object) -> bool:
    if not isinstance(document, Mapping) or not document:
        return False
    return not any(isinstance(value, Silence) for value in document.values())


def _handmade(loss: Loss, node: str, found: Documents) -> Handmade:
    part, _, key = loss.name.partition(".")
    place = _place(part, key, node, found)
    keys, value = place if place is not None else ((key,), None)
    if place is None and loss.was == "absent":
        keys = _keys_of_absent(part, key, found)
    if is_after_secret(key, arguments(_manifest(part, node, found))):
        keys, value = (marked("value"),), None
    there = loss.was != "absent"
    was = told_value(loss.name, loss.was) if _is_field(part, keys) else loss.was
    one = Handmade(part, tuple(map(_line, keys)), _line(was), _line(loss.will), there)
    return _without_secrets(replace(one, value=_as_json(value)))


def _is_field(part: str, keys: Sequence[str]) -> bool:
    is_of_pod = part != KUBELET and len(keys) == 1 and keys[0].startswith(_FIELDS)
    return is_of_pod or part in UNIT_FILES


def _line(text: str) -> str:
    return "".join(c for c in text[:1000] if c.isprintable())


def _as_json(value: Any) -> Any:
    """A value as JSON has it; None for what JSON lacks, and for one without end."""
    try:
        text = json.dumps(value, allow_nan=False)
        return read_json(text) if len(text) <= _LONGEST else None
    except (TypeError, ValueError, RecursionError):
        return None


def _without_secrets(one: Handmade) -> Handmade:
    """The same, and nothing of a value that its name or its form calls secret."""
    keys = tuple(str(redacted(key)) for key in one.keys)
    name = keys[-1] if keys else one.part
    named = keys != one.keys or is_secret(keys)
    value = next(iter(redacted({name: one.value}).values()))
    was, will = (told(name, text, named=named) for text in (one.was, one.will))
    if (value, was, keys) == (one.value, one.was, one.keys) and not (named and one.there):
        return replace(one, will=will)
    if one.value is not None and not named:
        is_argument = one.part in COMPONENTS and isinstance(value, list)
        was = shown(" ".join(map(str, value)) if is_argument else value)
    return replace(one, keys=keys, value=None, was=was, will=will, secret=True)


def _place(part: str, key: str, node: str, found: Documents) -> tuple[tuple[str, ...], Any] | None:
    """Where a setting is in its document, and its value there; None where it is nowhere."""
    if part == KUBELET:
        document = found.kubelet_files.get(node)
        places = leaves(document) if isinstance(document, Mapping) else ()
        return next(((path, value) for path, value in places if ".".join(path) == key), None)
    if part in UNIT_FILES:
        return None
    if part in ADD_ONS:
        document = found.coredns if part == "coredns" else found.kube_proxy
        return _of_pod(part, key, template_of(document))
    manifest = _manifest(part, node, found)
    flag = _flag(key, manifest)
    return flag if flag is not None else _of_pod("", key, _mapping(_mapping(manifest).get("spec")))


def _keys_of_absent(part: str, key: str, found: Documents) -> tuple[str, ...]:
    if part == KUBELET and isinstance(found.kubelet_configuration, Mapping):
        for path, _ in leaves(found.kubelet_configuration):
            if ".".join(path) == key:
                return path
    section, _, rest = key.partition(".")
    if section == "resources" and rest.count("."):
        return (section, *rest.split(".", 1))
    return (section, rest) if section in SECTIONS and rest else (key,)


def leaves(
    document: Mapping[Any, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every value that is no mapping, with the keys that lead to it; lists stay whole."""
    for key, value in document.items():
        here = (*path, str(key))
        if isinstance(value, Mapping) and len(path) < MOST_LEVELS:
            yield from leaves(value, here)
        else:
            yield here, value


def _flag(key: str, manifest: object) -> tuple[tuple[str, ...], list[str]] | None:
    """An argument of a static pod: all its values in order; ``true`` for one without a value."""
    values = [
        value if equals else "true"
        for name, equals, value in (word.partition("=") for word in arguments(manifest))
        if name.lstrip("-") == key
    ]
    return ((key,), values) if values else None


def _manifest(part: str, node: str, found: Documents) -> object:
    manifests = found.manifests.get(node)
    return manifests.get(part) if isinstance(manifests, Mapping) else None


def _of_pod(
    container: str, key: str, spec: Mapping[str, Any]
) -> tuple[tuple[str, ...], Any] | None:
    """A setting of a pod's specification that is no argument."""
    containers = [_mapping(one) for one in _list(spec.get("containers"))]
    own = next((c for c in containers if container in ("", c.get("name"))), {})
    section, _, rest = key.partition(".")
    if section in ("args", "command"):
        return (key,), own.get(section)
    if section in ("tolerations", "priorityClassName"):
        return (key,), spec.get(section)
    if section == "containers":
        return (key,), None
    if section == "volumes":
        paths = {v.get("name"): _mapping(v.get("hostPath")).get("path")
                 for v in map(_mapping, _list(spec.get("volumes")))}  # fmt: skip
        return (section, rest), paths.get(rest)
    if section == "env":
        values = {e.get("name"): e.get("value") for e in map(_mapping, _list(own.get("env")))}
        return (section, rest.removesuffix(".fieldRef")), values.get(rest)
    source = {"resources": own.get(section), "nodeSelector": spec.get(section)}.get(section)
    places = leaves(_mapping(source), (section,))
    return next(((path, value) for path, value in places if ".".join(path) == key), None)


def template_of(workload: object) -> Mapping[str, Any]:
    """The specification of a workload's pods."""
    spec = _mapping(_mapping(workload).get("spec"))
    return _mapping(_mapping(spec.get("template")).get("spec"))


def reason_not_made(one: Handmade, reserved: Sequence[str] = ()) -> str:
    """Why a lab cannot have a setting of the site; empty: it can.

    Args:
        one: the setting.
        reserved: keys of the kubelet's configuration that the lab needs for itself.
    """
    if one.part in UNIT_FILES:
        return UNIT_NOT_MADE
    is_missing = not one.there and one.part != KUBELET and one.keys[0] == "volumes"
    if _is_field(one.part, one.keys) or is_missing:
        return NOT_MADE
    if not one.there:
        return ""
    in_a_pod = one.keys[0] in (*SECTIONS, *WHOLE)
    reasons = (
        (one.secret, SECRET),
        (one.keys[0] in ("containers", "manifest"), "containers of others are not copied"),
        (one.value is None, NOT_KEPT),
        (
            one.part == KUBELET and one.keys[0] in reserved,
            "the lab needs a value of its own there",
        ),
        (not in_a_pod and names_file(one.value), FILE_NOT_COPIED),
    )
    return next((reason for applies, reason in reasons if applies), "")


def _words(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _words(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _words(inner)


def names_file(value: object) -> bool:
    """Whether a value has the path of a file or folder somewhere."""
    return any(word.startswith("/") for word in _words(value))


def put_into_kubelet(document: Mapping[str, Any], changes: Sequence[Handmade]) -> dict[str, Any]:
    """The kubelet's configuration of a lab's node with settings of the site."""
    found = copy.deepcopy(dict(document))
    for one in changes:
        _put(found, one.keys, one.value, there=one.there)
    return found


def put_into_static_pod(manifest: Mapping[str, Any], changes: Sequence[Handmade]) -> dict[str, Any]:
    """A static pod of a lab's node with settings of the site."""
    found = copy.deepcopy(dict(manifest))
    spec = found["spec"]
    container = spec["containers"][0]
    for one in changes:
        if one.keys[0] in SECTIONS:
            _put_into_pod(spec, container, one)
        else:
            container["command"] = _with_flag(container["command"], one)
    return found


def put_into_workload(workload: Mapping[str, Any], changes: Sequence[Handmade]) -> dict[str, Any]:
    """CoreDNS or kube-proxy of a lab with settings of the site."""
    found = copy.deepcopy(dict(workload))
    found.pop("status", None)
    spec = found["spec"]["template"]["spec"]
    for one in changes:
        container = next(c for c in spec["containers"] if c.get("name") == one.part)
        _put_into_pod(spec, container, one)
    return found


def _with_flag(command: Sequence[str], one: Handmade) -> list[str]:
    (name,) = one.keys
    others = [word for word in command if word.partition("=")[0].lstrip("-") != name]
    return [*others, *(f"--{name}={value}" for value in one.value or ())]


def _put_into_pod(spec: dict[str, Any], container: dict[str, Any], one: Handmade) -> None:
    section, *rest = one.keys
    if section == "resources":
        _put(container.setdefault(section, {}), tuple(rest), one.value, there=one.there)
    elif section == "nodeSelector":
        _put(spec.setdefault(section, {}), tuple(rest), one.value, there=one.there)
    elif section in ("args", "command"):
        _put(container, (section,), one.value, there=one.there)
    elif section in ("tolerations", "priorityClassName"):
        _put(spec, (section,), one.value, there=one.there)
    elif section == "env":
        value = {"name": rest[0], "value": one.value}
        _put_named(container, section, rest[0], value if one.there else None)
    elif section == "volumes":
        # Nothing of its content is there, and no container mounts it: it is only named.
        path = {"path": one.value, "type": "DirectoryOrCreate"}
        value = {"name": rest[0], "hostPath": path}
        _put_named(spec, section, rest[0], value if one.there else None)


def _put_named(
    holder: dict[str, Any], section: str, name: str, value: Mapping[str, Any] | None
) -> None:
    others = [item for item in holder.get(section) or () if item.get("name") != name]
    holder[section] = [*others, dict(value)] if value is not None else others


def _put(document: dict[str, Any], keys: Sequence[str], value: Any, *, there: bool) -> None:
    *before, last = keys
    here = document
    for key in before:
        inner = here.get(key)
        here[key] = inner if isinstance(inner, dict) else {}
        here = here[key]
    if there:
        here[last] = copy.deepcopy(value)
    else:
        here.pop(last, None)


def parts(changes: Sequence[Handmade]) -> dict[str, list[Handmade]]:
    """Part -> its settings, of every part that has some."""
    order = (*COMPONENTS, KUBELET, *ADD_ONS)
    found = {part: [one for one in changes if one.part == part] for part in order}
    return {part: some for part, some in found.items() if some}


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []
