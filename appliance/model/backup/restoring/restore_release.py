"""Whether a backup fits by its Kubernetes, or by its release where it says no version.

An upgrade writes its release into site.yml before its first change of a node. Until a control plane
has it, the newest backup is of the release before.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from appliance.model.backup.names import ANOTHER_BACKUP
from appliance.model.backup.restore_identity import CHECK
from appliance.model.backup.restore_view import NodeView
from appliance.model.state.plan import Refusal

if TYPE_CHECKING:
    from appliance.model.backup.record import About
    from appliance.model.state.upgrade import UpgradeMark


@dataclass(frozen=True)
class KnownRelease:
    """A release that this tool has.

    Attributes:
        kubernetes: its version of Kubernetes, without a leading v.
        reached_from: the releases from which an upgrade reaches it in one hop.
    """

    kubernetes: str
    reached_from: tuple[str, ...] = ()


@dataclass(frozen=True)
class Begun:
    """The upgrade that the control-plane nodes have a note of, and what this tool knows.

    Attributes:
        mark: the note; None without one.
        releases: name -> a release that this tool has.
    """

    mark: UpgradeMark | None = None
    releases: Mapping[str, KnownRelease] = field(default_factory=dict)

    def kubernetes_of(self, release: str) -> str:
        """The version of Kubernetes in a release; empty where this tool does not have it."""
        known = self.releases.get(release)
        return known.kubernetes if known else ""

    def leads(self, before: str, to: str) -> bool:
        """Whether an upgrade leads from one of its releases to another."""
        seen, left = set(), [to]
        while left:
            name = left.pop()
            known = self.releases.get(name)
            if known is not None and name not in seen:
                seen.add(name)
                left += known.reached_from
        return before != to and before in seen


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

    What ran when it was made decides. The name of the release only does where the backup or a node
    does not say the version: a timer, or an upgrade that was begun, writes one that does not run.

    Args:
        about: of the backup.
        release: as site.yml has it.
        views: control-plane node that is restored -> what it says of itself.
        begun: the upgrade that is under way.
        resumes: this restore was begun; it was judged then, and has stopped static pods since.
    """
    seen = {name: view.kubernetes for name, view in views.items() if isinstance(view, NodeView)}
    # Judged before it stopped static pods, of which the versions are.
    known = about.kubernetes and not resumes
    moved = [(n, v) for n, v in seen.items() if known and v not in ("", about.kubernetes)]
    if moved:
        return _of_another_kubernetes(about, *moved[0])
    told = resumes or (seen and all(seen.values()))
    if about.release == release or (about.kubernetes and told):
        return None
    return _by_name(about, release, seen, begun, resumes=resumes)


def _by_name(
    about: About, release: str, seen: Mapping[str, str], begun: Begun, *, resumes: bool
) -> Refusal | None:
    """Why the release that a backup names forbids it; None where an upgrade began from it."""
    expected = f"{release}, as site.yml has it"
    hint = f"use a backup of the release {release}; list them: appliance cluster backup list"
    if not goes_on_to(about, release, begun):
        more = _back(about, release, begun) if _may_be_unmoved(about, begun, seen) else ""
        found = f"a backup of the release {about.release}"
        return Refusal(about.id, CHECK, found, expected, hint + more)
    before = begun.kubernetes_of(about.release)
    for name, version in seen.items():
        if not resumes and (not before or version != before):
            return Refusal(
                name,
                CHECK,
                f"Kubernetes {version or 'of an unknown version'}, and a backup of the release "
                f"{about.release} from before the upgrade",
                f"{before or 'a release that this tool has'}, or {expected}",
                hint,
            )
    return None


def _of_another_kubernetes(about: About, name: str, version: str) -> Refusal:
    return Refusal(
        name,
        CHECK,
        f"Kubernetes {version}, and a backup of Kubernetes {about.kubernetes}",
        f"{about.kubernetes}, which ran when the backup was made",
        "use a backup of the Kubernetes that the nodes run; list them: appliance cluster backup "
        "list; without one: appliance docs recover-the-cluster",
    )


def of_another_install(about: About, release: str, begun: Begun) -> Refusal | None:
    """Why new machines with site.yml's release may not get what a backup holds; None: they may.

    What ran when it was made decides here, too; without it, the name of the release does.
    """
    if not about.kubernetes:
        return of_another_release(about, release, {}, begun, resumes=False)
    wanted = begun.kubernetes_of(release)
    if wanted == about.kubernetes:
        return None
    fit = [n for n, known in begun.releases.items() if known.kubernetes == about.kubernetes]
    fit.sort(key=lambda name: (name != about.release, name))
    others = f" (or {', '.join(fit[1:])})" if fit[1:] else ""
    hint = f"take a tool that has a release with Kubernetes {about.kubernetes}; or {ANOTHER_BACKUP}"
    if fit:
        hint = f"set appliance_release: {fit[0]}{others} in site.yml, then run again"
    return Refusal(
        about.id,
        CHECK,
        f"a backup of Kubernetes {about.kubernetes}",
        f"Kubernetes {wanted or 'of a release that this tool has'}, as the release {release} of "
        "site.yml has it",
        hint,
    )


def release_lines(about: About, release: str, begun: Begun) -> tuple[str, ...]:
    """What is told of the release of a backup that fits, in sentences."""
    told = []
    if about.kubernetes and about.release != release:
        told.append(
            f"the backup names the release {about.release}, and site.yml {release}: it fits by "
            f"Kubernetes {about.kubernetes}, which ran then and which every control plane has"
        )
    wanted = begun.kubernetes_of(release)
    before = goes_on_to(about, release, begun)
    if about.kubernetes:
        before = _numbers(wanted) > _numbers(about.kubernetes)
    if before:
        told.append(
            "the backup is from before an upgrade that no control plane has yet; to go on: "
            f"appliance cluster upgrade --to {shlex.quote(release)}"
        )
    return tuple(told)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(word) for word in version.split(".") if word.isdecimal())


def _may_be_unmoved(about: About, begun: Begun, seen: Mapping[str, str]) -> bool:
    """Whether nothing says that an upgrade from the backup's release changed a node."""
    is_over = begun.mark is not None and begun.mark.over
    ran = {*seen.values(), about.kubernetes}
    return not is_over and ran <= {"", begun.kubernetes_of(about.release)}


def _back(about: About, release: str, begun: Begun) -> str:
    """What else to do where an upgrade wrote its release into site.yml, and its note is lost."""
    if not begun.leads(about.release, release):
        return ""
    return (
        f"; or, if an upgrade to {release} had begun and had not changed a node yet: set "
        f"appliance_release: {about.release} in site.yml, then run again"
    )
