"""Facts that only the machine on which a command runs can know, as checks need them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from appliance.model.components.runai.backend_certificate import BackendCertificate
    from appliance.model.programs import Program
    from appliance.model.state.facts.hardware_models import HardwareModel, RoleMinimum


@dataclass(frozen=True)
class HardwareCatalogue:
    """The hardware that this installation knows.

    Attributes:
        models: name -> model.
        minima: group -> the least that a node of it needs.
    """

    models: Mapping[str, HardwareModel]
    minima: Mapping[str, RoleMinimum]


@dataclass(frozen=True)
class MissingPrograms:
    """Programs that the control host lacks.

    Attributes:
        machine: the control host's own name.
        programs: those that are missing.
        hint: the command that installs them.
    """

    machine: str
    programs: tuple[Program, ...]
    hint: str


@dataclass(frozen=True)
class LocalKnowledge:
    """What the control host knows of a site's backend.

    Attributes:
        resolved: name -> its addresses, by this machine's resolver.
        clock: UTC epoch seconds.
        certificate: the backend's; None where the site names none.
        login_known: whether the vault holds the password of the backend's first user; None where
            the vault is closed, or there is none.
    """

    resolved: Mapping[str, tuple[str, ...]]
    clock: float
    certificate: BackendCertificate | None = None
    login_known: bool | None = None
