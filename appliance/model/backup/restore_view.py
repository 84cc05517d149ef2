"""What a control-plane node says of itself before a restore, read strictly."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field

from appliance.model.documents.typed_json import Line, typed

Answer = Literal["cluster", "empty", "silent"]
Acts = Annotated[tuple[Line, ...], Field(max_length=20)]


@dataclass(frozen=True)
class NodeView:
    """What a control-plane node says of itself before a restore.

    Attributes:
        marks: word of a restore -> the acts that ended here.
        etcd_data: etcd has a data folder.
        manifests: the static pods of kubeadm that are not stopped.
        authorities: certificates and keys of all CAs are there.
        member: name and peer URL in the manifest of etcd; empty where that is not there.
        joined: the kubelet has its kubeconfig.
        etcd: ``cluster``: it answers, with a majority, and holds one; ``empty``: it holds none.
        free_bytes: where etcd's data lies.
        others: address of another control-plane node -> the same of its etcd, as this one reaches
            it.
        account_key: sha256 of the public key that service accounts are known by; empty: none.
        kubernetes: the version of the API server in its manifest, or in the one that a restore
            stopped; empty where there is none.
    """

    marks: Annotated[dict[Line, Acts], Field(max_length=100)]
    etcd_data: bool
    manifests: Annotated[tuple[Line, ...], Field(max_length=10)]
    authorities: bool
    member: Annotated[dict[Line, Line], Field(max_length=4)]
    joined: bool
    etcd: Answer
    free_bytes: Annotated[int, Field(ge=0, le=1 << 62)]
    others: Annotated[dict[Line, Answer], Field(max_length=20)] = field(default_factory=dict)
    account_key: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")] = ""
    kubernetes: Annotated[str, Field(pattern=r"^([0-9]+\.[0-9]+\.[0-9]+)?$")] = ""


def read_view(document: dict[str, Any]) -> NodeView:
    """What a node answered, read strictly.

    Raises:
        Unreadable: a field is missing or of another type.
    """
    return typed(document, NodeView)
