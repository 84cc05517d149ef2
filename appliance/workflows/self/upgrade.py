"""Replace this tool by the version of a bundle, beside the present one, and go back.

Refuse, make the new environment, let it check the sites, and switch at the end. A second run takes
up what an ended one left. What must not be here: how an environment is made
(:mod:`appliance.adapters.tool`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from appliance.errors import BundleRefused, NotHealthy
from appliance.model.bundle.tool import NewEnvironment, PresentTool, refuse_downgrade
from appliance.workflows.session.confirmation import require_confirmed

if TYPE_CHECKING:
    from pathlib import Path

    from appliance.model.bundle.signature import Signature
    from appliance.model.bundle.tool import Offer
    from appliance.workflows.session.local_ports import ToolPlace

Outcome = Literal["nothing to do", "planned", "switched"]


@dataclass(frozen=True)
class SelfUpgradeRequest:
    """What was asked for.

    Attributes:
        offer: the bundle, and what it carries.
        signature: of the bundle, as far as it was checked.
        sites: whose files the new version must accept before the switch.
        downgrade_to: the earlier version that the operator named, or None.
        unsigned: the operator accepts a bundle whose signature was not checked.
    """

    offer: Offer
    signature: Signature
    sites: tuple[Path, ...] = ()
    downgrade_to: str | None = None
    dry_run: bool = False
    unsigned: bool = False


@dataclass(frozen=True)
class SelfUpgradePlan:
    """What would be done, and how it ended; ``new`` is None where there is nothing to do."""

    present: PresentTool
    request: SelfUpgradeRequest
    new: NewEnvironment | None
    outcome: Outcome


def self_upgrade(
    request: SelfUpgradeRequest, place: ToolPlace, confirm: Callable[[SelfUpgradePlan], bool]
) -> SelfUpgradePlan:
    """Upgrade this tool.

    Raises:
        Refused: nothing was changed.
        BundleRefused: no allowed signer signed the bundle, or a wheel is not its own.
        CommandFailed: the new version could not be made or started; the present one is in use.
        NotHealthy: the new version does not accept a site; the present one is in use.
    """
    present = place.present()
    if request.signature.fault:
        raise BundleRefused(
            f"the bundle {request.offer.directory}: {request.signature.fault}",
            hint="install nothing from this copy: get another one from its sender",
        )
    if not refuse_downgrade(present.version, request.offer.tool.version, request.downgrade_to):
        return SelfUpgradePlan(present, request, None, "nothing to do")
    if not request.dry_run:
        _require_signed(request)
    with place.held():
        new = place.prepare()
        if request.dry_run:
            return SelfUpgradePlan(present, request, new, "planned")
        require_confirmed(confirm(SelfUpgradePlan(present, request, new, "planned")))
        place.make(new)
        for site in request.sites:
            _require_accepted(place, new, site)
        place.switch(new)
    return SelfUpgradePlan(present, request, new, "switched")


def _require_signed(request: SelfUpgradeRequest) -> None:
    """Refuse a bundle that no allowed signer vouches for, unless that is accepted by name.

    What is in it will run with this operator's rights, at every site.

    Raises:
        BundleRefused: there is no good signature; nothing was changed.
    """
    if request.signature.state != "good" and not request.unsigned:
        raise BundleRefused(
            f"the bundle {request.offer.directory}: found its signature "
            f"{request.signature.words()}, expected one by an allowed signer",
            hint="name the file of allowed signers: --allowed-signers FILE; to accept the bundle "
            "as it is: --unsigned",
        )


def _require_accepted(place: ToolPlace, new: NewEnvironment, site: Path) -> None:
    faults = place.check_site(new, site)
    if faults:
        program = new.folder / "bin" / "appliance"
        raise NotHealthy(
            f"the new version does not accept the site {site}; the present version is still in use",
            details=faults,
            hint=f"correct what it names: {program} site check --site {site}; "
            "then run the same command again",
        )


def go_back(place: ToolPlace) -> PresentTool:
    """Use the version again that the last upgrade replaced; returns it.

    Raises:
        Refused: no upgrade made this environment, or the earlier one does not start.
    """
    with place.held():
        return place.go_back()
