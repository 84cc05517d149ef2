"""The GPUs that Run:ai's projects have a claim to, read from its Project objects.

Versions and fields: the vendor's published definitions (run-ai/public, 2.7 and 2.8). Up to 2.7 a
project has ``deservedGpus`` or ``resources``, from 2.8 on a queue for each pool of nodes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from appliance.adapters.kubernetes.connection.client import (
    NotReadable,
    call,
    get_untyped,
    object_of,
)
from appliance.adapters.kubernetes.connection.connection import ApiConnection
from appliance.errors import ApplianceError
from appliance.model.upgrade.evidence import Silence

DEFINITION: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/projects.run.ai"
NOT_FOUND: Final = 404
MOST_GPUS: Final = 1_000_000
_VERSION: Final = re.compile(r"v[0-9a-z]{1,20}", re.ASCII)


class ProjectsReader(ApiConnection):
    """Reads what Run:ai's projects were promised."""

    def deserved_gpus(self) -> Mapping[str, float | None] | Silence:
        """Project -> GPUs that it has a claim to; None: not readable; empty without Run:ai."""
        try:
            with self.any_client() as client:
                definition = _read(client, DEFINITION)
                if not isinstance(definition, Mapping):
                    return definition or {}
                version = _version_of(definition)
                if not version:
                    return Silence("the definition of projects.run.ai names no version")
                found = _read(client, f"/apis/run.ai/{version}/projects")
        except (ApplianceError, NotReadable) as error:
            return Silence(str(error))
        return deserved_of(found) if isinstance(found, Mapping) else found or {}


def deserved_of(projects: Mapping[str, Any]) -> Mapping[str, float | None] | Silence:
    """The same, of a list of Project objects."""
    items = projects.get("items")
    if not isinstance(items, list):
        return Silence("the API answered with no list of projects")
    found: dict[str, float | None] = {}
    for item in items:
        metadata = item.get("metadata") if isinstance(item, dict) else None
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if not isinstance(name, str):
            return Silence("the API answered with a project without a name")
        found[name] = _deserved(item.get("spec"))
    return found


def _deserved(spec: object) -> float | None:
    if not isinstance(spec, dict):
        return None
    queues = spec.get("queues")
    if queues is not None and not isinstance(queues, list):
        return None
    # A claim in each pool of nodes; without pools the newer field stands for the older one.
    several = [_of_resources(queue) for queue in queues or ()]
    if not several and spec.get("resources") is not None:
        several = [_of_resources(spec)]
    if not several or all(one == 0 for one in several):
        several = [_number(spec.get("deservedGpus"))]
    sums = [one for one in several if one is not None]
    return sum(sums) if len(sums) == len(several) else None


def _of_resources(holder: object) -> float | None:
    """``resources.gpu.deserved``; what is absent is no claim."""
    for key in ("resources", "gpu"):
        if not isinstance(holder, dict):
            return None
        holder = holder.get(key)
        if holder is None:
            return 0
    return _number(holder.get("deserved")) if isinstance(holder, dict) else None


def _number(value: object) -> float | None:
    """A number of GPUs; 0 for none, None for what is no such number."""
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if 0 <= value <= MOST_GPUS else None


def _version_of(definition: Mapping[str, Any]) -> str:
    """The version in which projects are stored, if it is served; empty: none is known."""
    spec = definition.get("spec")
    versions = spec.get("versions") if isinstance(spec, dict) else None
    for one in versions if isinstance(versions, list) else ():
        if isinstance(one, dict) and one.get("storage") is True and one.get("served") is True:
            name = one.get("name")
            return name if isinstance(name, str) and _VERSION.fullmatch(name) else ""
    return ""


def _read(client: Any, path: str) -> Mapping[str, Any] | Silence | None:
    """An object of the API; None: there is none."""
    answer = call(get_untyped, client, path)
    if answer.status == NOT_FOUND:
        return None
    return object_of(answer)
