"""What is known of a backup: the file beside it, and the manifest that ends it.

Both are read strictly and within limits, because storage of others keeps them. The file beside a
backup holds no secret, and of the customer only the site's name.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Final, TypeVar

from pydantic import Field

from appliance.model.backup.names import KINDS, is_backup_id, is_part_name, kind_of
from appliance.model.documents.strict_json import NewerSchema, Unreadable, read_json
from appliance.model.documents.typed_json import Line, NodeName, typed

Known = TypeVar("Known", "Sidecar", "Manifest")

FORMAT: Final = 1
MOST_SIDECAR_BYTES: Final = 4 << 20
MOST_MANIFEST_BYTES: Final = 64 << 20
MOST_PARTS: Final = 50_000
# Of what is named as missing; the writer counts the rest.
MOST_NAMED: Final = 300
# Where something of the control host is missing.
THIS_MACHINE: Final = "this machine"
_MOST_MISSING: Final = 2000
_MOST_NODES: Final = 100

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Size = Annotated[int, Field(ge=0, le=1 << 50)]
Number = Annotated[int, Field(ge=0, le=(1 << 63) - 1)]
Moment = Annotated[
    str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\+00:00$")
]
Fingerprint = Annotated[str, Field(pattern=r"^SHA256:[0-9a-f]{64}$")]
PartName = Annotated[str, Field(max_length=1024)]
# Of Kubernetes, without a leading v; empty: nobody knows it.
KubernetesVersion = Annotated[str, Field(max_length=40, pattern=r"^([0-9]+\.[0-9]+\.[0-9]+)?$")]
KindName = Annotated[str, Field(max_length=40, pattern=r"^[a-z_]+$")]


@dataclass(frozen=True)
class Missing:
    """Something that a whole backup would hold, and this one does not.

    Attributes:
        where: the node, or ``cluster``.
        what: a kind or the name of a part.
        why: in words.
    """

    where: Line
    what: Line
    why: Line


@dataclass(frozen=True)
class Part:
    """One file in a backup.

    Attributes:
        name: its member in the archive, below the folder of its kind.
        sha256: of its content.
        size: in bytes.
        node: where it is from; "" for what the control host had.
    """

    name: PartName
    sha256: Sha256
    size: Size
    node: Annotated[str, Field(max_length=253, pattern=r"^[A-Za-z0-9.-]*$")] = ""

    @property
    def kind(self) -> str:
        """Its kind."""
        return kind_of(self.name)


@dataclass(frozen=True)
class About:
    """What is said of a backup inside of it and beside it.

    Attributes:
        id: the file's name without its suffix.
        site: the name of the site.
        created: when it was begun, in UTC.
        release: of the appliance, as site.yml named it; what ran may be of another.
        tool_version: of this product.
        recipients: fingerprints of the public keys that it is encrypted to.
        kinds: that are in it.
        missing: what is not in it, and why.
        kubernetes: the version that every control-plane node ran when it was made, by the manifest
            of its API server; the timer of a node knows that node alone. Empty where nodes ran
            several or did not say it, and in what tools before this field wrote.
    """

    id: Annotated[str, Field(max_length=100)]
    site: Line
    created: Moment
    release: Line
    tool_version: Line
    recipients: Annotated[tuple[Fingerprint, ...], Field(min_length=1, max_length=50)]
    kinds: Annotated[tuple[KindName, ...], Field(max_length=20)]
    missing: Annotated[tuple[Missing, ...], Field(max_length=_MOST_MISSING)] = ()
    kubernetes: KubernetesVersion = ""


@dataclass(frozen=True)
class Sidecar:
    """The file beside a backup: it is written last, so its presence says that all was written.

    Attributes:
        about: what is said of the backup.
        size: of the encrypted file, in bytes.
        sha256: of the encrypted file.
    """

    about: About
    size: Size
    sha256: Sha256


@dataclass(frozen=True)
class EtcdMember:
    """A member of etcd when the snapshot was taken: its name, peer address and id."""

    node: NodeName
    address: Line
    id: Annotated[str, Field(pattern=r"^[0-9a-f]{1,16}$")]


@dataclass(frozen=True)
class EtcdContent:
    """What the snapshot of etcd holds, as a restore of it showed.

    Attributes:
        revision: the last one.
        keys: how many there are.
        digest: sha256 over all keys (``playbooks/module_utils/appliance_etcd_file.py``).
        sha256: of the file.
        version: of the etcd that restored it.
        members: of etcd.
    """

    revision: Number
    keys: Number
    digest: Sha256
    sha256: Sha256
    version: Line = ""
    members: Annotated[tuple[EtcdMember, ...], Field(max_length=_MOST_NODES)] = ()


@dataclass(frozen=True)
class Manifest:
    """The last member of a backup: without it, the backup was interrupted.

    Attributes:
        about: what is said of the backup.
        endpoint: NAME:PORT of the API.
        parts: everything that comes before, in its order.
        etcd: what its snapshot holds; None: there is none.
        versions: of programs: name -> version.
        abandoned: places in the archive, from 0 on, of members whose source broke off; they are
            no parts, and their content means nothing.
    """

    about: About
    endpoint: Line
    parts: Annotated[tuple[Part, ...], Field(max_length=MOST_PARTS)]
    etcd: EtcdContent | None = None
    versions: Annotated[dict[Line, Line], Field(max_length=200)] = field(default_factory=dict)
    abandoned: Annotated[tuple[Size, ...], Field(max_length=_MOST_MISSING)] = ()

    def of_kind(self, kind: str) -> tuple[Part, ...]:
        """The parts of one kind."""
        return tuple(part for part in self.parts if part.kind == kind)

    def part(self, name: str) -> Part | None:
        """The part of that name."""
        return next((part for part in self.parts if part.name == name), None)


def sidecar_text(sidecar: Sidecar) -> str:
    """The file beside a backup."""
    document = {**_about(sidecar.about), "size": sidecar.size, "sha256": sidecar.sha256}
    return json.dumps(document, indent=2) + "\n"


def manifest_text(manifest: Manifest) -> str:
    """The last member of a backup."""
    document = {
        **_about(manifest.about),
        "endpoint": manifest.endpoint,
        "versions": manifest.versions,
        "abandoned": list(manifest.abandoned),
        "etcd": None if manifest.etcd is None else asdict(manifest.etcd),
        "parts": [{"kind": part.kind, **asdict(part)} for part in manifest.parts],
    }
    return json.dumps(document, indent=1) + "\n"


def _about(about: About) -> dict[str, Any]:
    return {"format": FORMAT, **asdict(about)}


def read_sidecar(content: str | bytes) -> Sidecar:
    """Read the file beside a backup.

    Raises:
        NewerSchema: a later version wrote it.
        Unreadable: it is not such a file.
    """
    document = _document(content, MOST_SIDECAR_BYTES)
    about, rest = _split(document)
    return _checked(typed({**rest, "about": about}, Sidecar))


def read_manifest(content: str | bytes) -> Manifest:
    """Read the last member of a backup.

    Raises:
        NewerSchema: a later version wrote it.
        Unreadable: it is not a manifest, or its parts cannot be parts of a backup.
    """
    document = _document(content, MOST_MANIFEST_BYTES)
    about, rest = _split(document)
    found = _checked(typed({**rest, "about": about}, Manifest))
    names = [part.name for part in found.parts]
    strange = [name for name in names if not is_part_name(name)]
    if strange:
        raise Unreadable(f"parts: {strange[0][:100]!r} is no name of a part")
    if len(set(names)) != len(names):
        raise Unreadable("parts: a name is there twice")
    return found


_ABOUT: Final = tuple(About.__dataclass_fields__)


def _split(document: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    about = {key: document[key] for key in _ABOUT if key in document}
    return about, {key: value for key, value in document.items() if key not in about}


def _document(content: str | bytes, most_bytes: int) -> dict[str, Any]:
    document = read_json(content, most_bytes=most_bytes)
    if not isinstance(document, dict):
        raise Unreadable("it is not a JSON object")
    number = document.pop("format", None)
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise Unreadable("its format is not a number from 1 on")
    if number > FORMAT:
        raise NewerSchema(
            f"it has format {number}, and this version reads {FORMAT} at most: "
            "use the version that wrote it"
        )
    return document


def _checked(found: Known) -> Known:
    if not is_backup_id(found.about.id):
        raise Unreadable(f"id: {found.about.id!r} is not the name of a backup")
    strange = [kind for kind in found.about.kinds if kind not in KINDS]
    if strange:
        raise Unreadable(f"kinds: {strange[0]!r} is none")
    return found
