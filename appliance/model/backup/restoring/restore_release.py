"""Whether a backup's release fits: site.yml's, or the one from which an upgrade just began.

An upgrade writes its release into site.yml before its first change of a node. Until a control plane
has it, the newest backup is of the release before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from appliance.model.backup.restore_identity import CHECK
from appliance.model.backup.restore_view import NodeView
from appliance.model.state.plan import Refusal

if TYPE_CHECKING:
    from appliance.model.backup.record import About
    from appliance.model.state.upgrade import UpgradeMark


@dataclass(frozen=True)
class Begun:
    """The upgrade that the control-plane nodes have a note of.

    Attributes:
        mark: the note; None without one.
        kubernetes: the version of Kubernetes in the backup's release; empty where this tool does
            not know the release.
    """

    mark: UpgradeMark | None = None
    kubernetes: str = ""


def goes_on_to(about: About, release: str, begun: Begun) -> bool:
    """Whether site.yml's release is that of an upgrade which began from the backup's."""
    mark = begun.mark
    return (
        mark is not None
        and not mark.over
        and (mark.release, mark.before) == (release, about.release)
    )


def of_another_release(
    about: About,
    release: str,
    views: Mapping[str, NodeView | str],
    begun: Begun,
    *,
    resumes: bool,
) -> Refusal | None:
    """Why a backup may not be restored by its release; None where it may.

    Args:
        about: of the backup.
        release: as site.yml has it.
        views: control-plane node -> what it says of itself.
        begun: the upgrade that is under way.
        resumes: this restore was begun; it was judged then, and has stopped static pods since.
    """
    if about.release == release:
        return None
    expected = f"{release}, as site.yml has it"
    hint = f"use a backup of the release {release}; list them: appliance cluster backup list"
    if not goes_on_to(about, release, begun):
        return Refusal(about.id, CHECK, f"a backup of the release {about.release}", expected, hint)
    seen = {name: view.kubernetes for name, view in views.items() if isinstance(view, NodeView)}
    for name, version in seen.items():
        if not resumes and (not begun.kubernetes or version != begun.kubernetes):
            return Refusal(
                name,
                CHECK,
                f"Kubernetes {version or 'of an unknown version'}, and a backup of the release "
                f"{about.release} from before the upgrade",
                f"{begun.kubernetes or 'a release that this tool has'}, or {expected}",
                hint,
            )
    return None
