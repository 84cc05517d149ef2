"""What ends, where, when, and what to do: certificates, CAs, tokens, support, licences.

What nobody could read is in the list as unknown, with the reason: its absence would look like
safety. What ends by itself or long ago ended for good is listed and does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time
from pathlib import PurePosixPath
from typing import Final, Literal

from appliance.model.bundle.release.release import Release
from appliance.model.components.access.oidc import is_enabled
from appliance.model.components.control_plane.certificates import KUBELET_DAYS, KUBELETS
from appliance.model.components.runai.backend_certificate import BackendCertificate
from appliance.model.site.settings import Site
from appliance.model.state.certificates import DAY, FOLDER
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.observed import Look
from appliance.model.upkeep.horizon.brought import Brought

Kind = Literal["certificate", "authority", "token", "support", "licence"]
WITHIN_DAYS: Final = 30
MOST_DAYS: Final = 3650
_RENEW: Final = "appliance cluster certificates renew"
_PAGE: Final = "appliance docs renew-kubernetes-certificates"
_PKI: Final = "kubernetes.pki"
# Facts -> what they tell of: where they could not be read, that is no all-clear.
_TOLD: Final[Mapping[str, str]] = {
    _PKI: "certificates of Kubernetes",
    "certificates": "certificates of mirror and registry",
    "trust.site_ca_not_after": "CA of the site",
    "runai.certificate": "Run:ai's backend, as served",
}
_API_SERVER: Final = "/etc/kubernetes/pki/apiserver.crt"
_AUTHORITY: Final = "/etc/kubernetes/pki/ca.crt"
# kubeadm, cmd/kubeadm/app/constants: CertificateValidity; and ten years of 365 days.
_LEAF_DAYS: Final = 365
_AUTHORITY_DAYS: Final = 3650
_SERVICES: Final[Mapping[str, str]] = {"artifacts": "mirror", "registry": "registry"}


@dataclass(frozen=True)
class Ending:
    """One thing that ends.

    Attributes:
        kind: what it is.
        where: a node, ``site``, ``cluster``, or the release.
        what: a file, or a name for people.
        ends: in UTC; None where that is unknown.
        unknown: why it is unknown, or empty.
        next: the command or the page that helps, or empty.
        counts: whether it needs somebody; what renews itself does not.
        doubt: why the date is only what the node says, or empty.
    """

    kind: Kind
    where: str
    what: str
    ends: datetime | None = None
    unknown: str = ""
    next: str = ""
    counts: bool = True
    doubt: str = ""

    def left(self, now: float) -> float | None:
        """The days that are left by a clock (UTC epoch seconds); None where that is unknown."""
        return None if self.ends is None else (self.ends.timestamp() - now) / DAY

    def is_unread(self) -> bool:
        """Whether a node should have told it and did not: that is no all-clear."""
        of_node = self.kind == "certificate" and self.where not in ("site", "cluster")
        return self.ends is None and self.counts and of_node

    def is_due(self, now: float, within_days: float) -> bool:
        """Whether somebody has to act within so many days, or had to before."""
        left = self.left(now)
        if left is None or not self.counts or left >= within_days:
            return False
        # Support that ended does not come back: every day would be an alarm.
        return left >= 0 or self.kind != "support"


@dataclass(frozen=True)
class Seen:
    """What was read for the list.

    Attributes:
        look: facts of the nodes.
        backend: the certificate that the site brings for Run:ai's backend; None: it brings none.
        tokens: when each join token ends, ISO 8601.
        tokens_unread: why that is unknown, or empty.
        epoch: by the clock of this machine, UTC epoch seconds; a node's own may be late.
        served: control-plane node -> when the certificate ends that its API server showed to this
            machine (ISO 8601); without those that did not answer.
        brought: certificates that the organisation brings.
    """

    look: Look
    backend: BackendCertificate | None = None
    tokens: Sequence[str] = ()
    tokens_unread: str = ""
    epoch: float = 0.0
    served: Mapping[str, str] = field(default_factory=dict)
    brought: Sequence[Brought] = ()


def horizon(site: Site, release: Release, seen: Seen) -> tuple[Ending, ...]:
    """Everything that ends, the earliest first, what is unknown last."""
    found = [
        *_of_nodes(site, seen),
        *_served(seen),
        *_site_ca(seen.look.node_facts),
        *_backend(seen.backend),
        *_brought(seen.brought),
        *_tokens(seen),
        *_issuer(site),
        *_support(release),
        *_licences(site),
        *_copies(seen.look.node_facts),
    ]
    return tuple(sorted(found, key=_order))


def _order(ending: Ending) -> tuple[bool, datetime, str, str]:
    last = datetime.max.replace(tzinfo=UTC)
    return (ending.ends is None, ending.ends or last, ending.where, ending.what)


def _of_nodes(site: Site, seen: Seen) -> Iterator[Ending]:
    controls = {node.name for node in site.control_plane}
    for name, facts in seen.look.node_facts.items():
        for ending in _kubernetes(name, facts, seen.epoch):
            yield replace(ending, doubt=doubt(ending, seen))
        yield from _doubted(_services(name, facts), seen)
        for path, what in _TOLD.items():
            whys = facts.unreadable(path.partition(".")[0])
            if whys and facts.at(path) is None:
                yield Ending("certificate", name, what, None, whys[0], _PAGE)
        if name in controls and facts.at("kubernetes.kubelet_active") and not facts.items(_PKI):
            yield Ending("certificate", name, _TOLD[_PKI], None, "it tells of none", _PAGE)
    for fault in seen.look.faults:
        if any(node.name == fault.node for node in site.nodes):
            yield Ending(
                "certificate", fault.node, "all certificates", None, fault.reason, fault.hint
            )


def _kubernetes(name: str, facts: NodeFacts, now: float) -> Iterator[Ending]:
    for seen in (*facts.items(_PKI), *facts.items("kubernetes.kubeconfigs")):
        path, ends = str(seen.get("path")), _moment(seen.get("not_after"))
        if ends is None:
            # A kubeconfig may name a file in place of a certificate: it has no date of its own.
            if seen.get("error"):
                yield Ending("certificate", name, path, None, str(seen["error"]), _PAGE)
            continue
        if path in KUBELETS:
            yield Ending(
                "certificate", name, path, ends, "", _PAGE, counts=_is_late(ends, facts, now)
            )
        elif PurePosixPath(path).stem.endswith("ca"):
            yield Ending("authority", name, path, ends, "", _PAGE)
        else:
            yield Ending("certificate", name, path, ends, "", _timer_or(facts, _RENEW))


def _timer_or(facts: NodeFacts, command: str) -> str:
    """What helps: a timer that waits does it by itself, and a command does it now."""
    days = facts.at("timers.certificates.settings.within_days")
    if facts.at("timers.certificates.active") != "active" or not isinstance(days, int):
        return command
    return f"its timer renews it when {days} days are left; now: {command}"


def _copies(node_facts: Mapping[str, NodeFacts]) -> Iterator[Ending]:
    """A timer renews admin.conf on its node; copies that operators have are the one before."""
    for name, facts in node_facts.items():
        ends = _moment(facts.at("timers.certificates.success.copies_end"))
        if ends is not None:
            what = "copies of admin.conf from before its timer renewed it"
            yield Ending("certificate", name, what, ends, "", "appliance kubeconfig")


def _served(seen: Seen) -> Iterator[Ending]:
    for name, text in seen.served.items():
        if (ends := _moment(text)) is not None:
            yield Ending("certificate", name, "API server, as served", ends, "", _RENEW)


def doubt(ending: Ending, seen: Seen) -> str:
    """Why a date that a node tells of its own certificate is not believed; empty if it may be.

    Whoever is root there may tell any date, and a late one hides the end. kubeadm's certificates
    last a year, its authorities ten, and none is good for longer than the authority of the others.
    """
    if ending.ends is None or not seen.epoch:
        return ""
    shown = _moment(seen.served.get(ending.where)) if ending.what == _API_SERVER else None
    if shown is not None and abs((shown - ending.ends).total_seconds()) > DAY:
        return f"its API server shows a certificate that ends on {shown:%Y-%m-%d}"
    if ending.kind == "authority":
        return _beyond(ending.ends, seen.epoch, _AUTHORITY_DAYS, "an authority of kubeadm")
    told = _beyond(ending.ends, seen.epoch, _LEAF_DAYS, "a certificate of kubeadm")
    others = [
        moment
        for name, facts in seen.look.node_facts.items()
        for one in facts.items(_PKI)
        if name != ending.where and one.get("path") == _AUTHORITY
        if (moment := _moment(one.get("not_after"))) is not None
    ]
    if not told and others and ending.ends > max(others):
        return f"the cluster's authority ends on {max(others):%Y-%m-%d}, by other nodes"
    return told


def _doubted(found: Iterable[Ending], seen: Seen) -> Iterator[Ending]:
    for ending in found:
        yield replace(ending, doubt=_doubt_of_service(ending, seen))


def _doubt_of_service(ending: Ending, seen: Seen) -> str:
    """Why a date that a node tells of a server's certificate is not believed.

    A certificate of the site's CA is no good after the CA, and most nodes tell the CA's end.
    """
    others = [
        moment
        for name, facts in seen.look.node_facts.items()
        if name != ending.where
        if (moment := _moment(facts.at("trust.site_ca_not_after"))) is not None
    ]
    if ending.ends is None or not others or ending.ends <= max(others):
        return ""
    return f"the site's CA ends on {max(others):%Y-%m-%d}, by other nodes"


def _beyond(ends: datetime, now: float, days: int, what: str) -> str:
    # One more day, for clocks that differ.
    is_beyond = ends.timestamp() > now + (days + 1) * DAY
    return f"{what} lasts {days} days" if is_beyond else ""


def _is_late(ends: datetime, facts: NodeFacts, now: float) -> bool:
    """Whether a kubelet should have renewed its own by now; by the later of the two clocks."""
    clock = max(facts.epoch or 0.0, now)
    return clock > 0 and ends.timestamp() - clock < KUBELET_DAYS * DAY


def _services(name: str, facts: NodeFacts) -> Iterator[Ending]:
    """The certificates of the appliance's own servers; an install renews those of the site's CA."""
    for seen in facts.items("certificates"):
        path = PurePosixPath(str(seen.get("path")))
        ends = _moment(seen.get("not_after"))
        what = f"{_SERVICES.get(path.stem, path.stem)}: {path}"
        if str(path.parent) == FOLDER and ends is not None:
            yield Ending("certificate", name, what, ends, "", "appliance install")
        elif seen.get("error"):
            yield Ending("certificate", name, what, None, str(seen["error"]), "appliance plan")
    ends = _moment(facts.at("runai.certificate.not_after"))
    if ends is not None:
        yield Ending(
            "certificate", name, "Run:ai's backend, as served", ends, "", "appliance install"
        )


def _site_ca(node_facts: Mapping[str, NodeFacts]) -> Iterator[Ending]:
    """The CA of the site, once; nodes that trust another one show in ``health``."""
    moments = {_moment(facts.at("trust.site_ca_not_after")) for facts in node_facts.values()}
    known = sorted(moment for moment in moments if moment is not None)
    if known:
        yield Ending("authority", "site", "CA of the site", known[0], "", "appliance docs index")
    else:
        yield Ending("authority", "site", "CA of the site", None, "no node that answers has it")


def _backend(backend: BackendCertificate | None) -> Iterator[Ending]:
    if backend is None:
        return
    if backend.unreadable:
        unknown = f"{backend.path}: {backend.unreadable}"
        yield Ending("certificate", "site", "Run:ai's backend", None, unknown, "appliance health")
    for link in backend.links:
        ends = datetime.fromtimestamp(link.not_after, UTC)
        kind: Kind = "authority" if link.is_authority else "certificate"
        yield Ending(
            kind, "site", f"Run:ai's backend: {link.subject}", ends, "", "appliance runai csr"
        )


def _brought(certificates: Iterable[Brought]) -> Iterator[Ending]:
    """The organisation renews them; then its new CA goes into the site."""
    for one in certificates:
        ends = _moment(one.ends)
        why = "" if ends else one.unknown or "its date cannot be read"
        yield Ending(one.kind, "site", one.what, ends, why, "appliance docs change-a-site")


def _tokens(seen: Seen) -> Iterator[Ending]:
    """Join tokens end within hours on purpose: each joining gets a new one."""
    if seen.tokens_unread:
        yield Ending("token", "cluster", "join tokens", None, seen.tokens_unread, counts=False)
    for text in sorted(seen.tokens):
        ends = _moment(text)
        if ends is not None:
            yield Ending("token", "cluster", "join token", ends, counts=False)


def _issuer(site: Site) -> Iterator[Ending]:
    if is_enabled(site):
        why = "its server's certificate is not read"
        yield Ending("certificate", "site", "OIDC issuer", None, why, "appliance docs access")


def _support(release: Release) -> Iterator[Ending]:
    """Until when the makers of each part mend it; a release that does not say so is unknown."""
    known: Mapping[str, date] = getattr(release, "support_ends", {})
    for part, version in release.versions.model_dump(exclude_none=True).items():
        day = known.get(part)
        what, where = f"support of {part} {version}", f"release {release.name}"
        if day is None:
            yield Ending("support", where, what, None, "the release does not say")
        else:
            ends = datetime.combine(day, time.max, UTC).replace(microsecond=0)
            yield Ending("support", where, what, ends, "", "appliance docs upgrade-kubernetes")


def _licences(site: Site) -> Iterator[Ending]:
    if site.settings.runai is not None:
        why = "no interface tells it: it is in your contract, and in Run:ai's own settings"
        yield Ending("licence", "site", "Run:ai", None, why)
    if site.settings.gpu is not None:
        why = "no program on the nodes tells it: it is in your contract"
        yield Ending("licence", "site", "NVIDIA AI Enterprise, where you have it", None, why)


def _moment(text: object) -> datetime | None:
    if not text:
        return None
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    if found.tzinfo is None:
        return found.replace(tzinfo=UTC)
    try:
        return found.astimezone(UTC)
    except OverflowError:
        # Of the first or the last day: in UTC it is outside of all years.
        return found.replace(tzinfo=UTC)


def due(endings: Iterable[Ending], now: float, within_days: float) -> tuple[Ending, ...]:
    """Those for which somebody has to act within so many days, the earliest first."""
    return tuple(ending for ending in endings if ending.is_due(now, within_days))
