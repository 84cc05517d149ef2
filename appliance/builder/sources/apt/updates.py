"""The updates of the packages that nodes have: security updates, and kernels.

apt is told what one node has, and answers what an upgrade would bring it: from the release's own
suite and its security suite, never from ``-updates``, ``-backports`` or another vendor's archive.
What must not be here: which of them a node gets (:mod:`appliance.model.patch`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path

from appliance.adapters.local.cache import Cache, recipe_key
from appliance.builder.sources.apt.isolated import IsolatedApt, ResolvedPackage
from appliance.builder.sources.apt.sources import AptTarget, as_deb822, stanza_fields
from appliance.errors import BuildFailed, BundleRefused
from appliance.model.bundle.builds.fetched import FetchedArtifact, FetchedFile
from appliance.model.bundle.installed import InstalledList, InstalledPackages
from appliance.model.patch.kernels import is_of_a_kernel

SECURITY = "-security"
# A server has some hundred. A list of the whole archive in old versions would fill the disk.
MOST_UPDATES = 3000
# A .deb is an ar archive: 8 bytes, then 60 for each member, with the time at bytes 16 to 28.
_AR = b"!<arch>\n"
_TIME = slice(24, 36)


@dataclass(frozen=True)
class UpdatesRequest:
    """Which updates a bundle is to have.

    Attributes:
        since: updates that were built before this day are left out.
        installed: what the nodes have.
    """

    since: date
    installed: InstalledList


def security_target(target: AptTarget) -> AptTarget:
    """The same archives, limited to the suites that get security updates, and what they build on.

    Raises:
        BundleRefused: no archive has a security suite.
    """
    stanzas = [stanza_fields(as_deb822(text)) for text in target.sources]
    suites = [suite for fields in stanzas for suite in fields.get("suites", "").split()]
    secured = {suite.removesuffix(SECURITY) for suite in suites if suite.endswith(SECURITY)}
    if not secured:
        raise BundleRefused(
            f"no package archive of {target.name} has a suite of security updates: found "
            + (", ".join(dict.fromkeys(suites)) or "none"),
            hint="build without --updates-since, or where apt has the security suite",
        )
    wanted = {*secured, *(suite + SECURITY for suite in secured)}
    kept = []
    for fields in stanzas:
        own = [suite for suite in fields.get("suites", "").split() if suite in wanted]
        # Another vendor names a suite like the release's, but has no components of it.
        if own and "main" in fields.get("components", "").split():
            kept.append({**fields, "suites": " ".join(own)})
    return replace(target, sources=tuple(map(_stanza, kept)))


def _stanza(fields: dict[str, str]) -> str:
    return "".join(
        f"{key.title()}: {value.replace(chr(10), chr(10) + ' ')}\n" for key, value in fields.items()
    )


class _NodeApt(IsolatedApt):
    """apt for a node whose packages are known by name and version."""

    def upgrades(self, node: InstalledPackages, architecture: str) -> tuple[ResolvedPackage, ...]:
        """What an upgrade of the node would download, its kernels included.

        Raises:
            BuildFailed: apt cannot tell.
        """
        status = self._folder / "status"
        status.write_text("\n".join(_status(node, architecture)), encoding="utf-8")
        try:
            done = self._apt(
                "apt-get", "upgrade", "--with-new-pkgs", "--yes", "--print-uris", "-qq"
            )
            if not done.ok:
                raise BuildFailed(
                    f"apt cannot tell the updates of node {node.node}",
                    details=done.output.strip().splitlines()[-5:],
                    hint="write the list again at the site: appliance site packages --out FILE",
                )
            return self._described(done.stdout)
        finally:
            status.write_text("", encoding="utf-8")


def _status(node: InstalledPackages, architecture: str) -> Iterator[str]:
    """Dpkg's status of the node; our hold of a kernel keeps no newer kernel from the bundle."""
    for name, version in sorted(node.packages.items()):
        held = name in node.held and not is_of_a_kernel(name)
        yield (
            f"Package: {name}\nStatus: {'hold' if held else 'install'} ok installed\n"
            f"Version: {version}\nArchitecture: {architecture}\n"
        )


class NodeUpdates:
    """The updates of the nodes of one list."""

    def __init__(
        self, cache: Cache, target: Callable[[], AptTarget], request: UpdatesRequest
    ) -> None:
        self._cache = cache
        self._target = target
        self._request = request

    def fetch(self) -> FetchedArtifact:
        """The updates of every node, each once.

        Raises:
            BuildFailed: an archive cannot be reached, or a package cannot be downloaded.
            BundleRefused: a node lacks more updates than any node can.
        """
        request = self._request
        with self._cache.alone("apt"):
            apt, architecture = self._ready()
            found = {item.sha256: item for item in self._of_all(apt, architecture)}
            packages = sorted(found.values(), key=lambda item: (item.name, item.version))
            missing = [p for p in packages if not self._cache.holds(p.sha256, p.size)]
            if missing:
                for path in apt.download(missing, self._cache.work("packages")):
                    self._cache.adopt(path)
        present = {name for node in request.installed.nodes for name in node.packages}
        older = [
            item
            for item in packages
            if item.name in present and built(self._cache.path(item.sha256)) < request.since
        ]
        files = tuple(_file(item) for item in packages if item not in older)
        return FetchedArtifact(
            "apt", f"updates since {request.since}", "apt", files,
            details={item.name: item.version for item in older},
        )  # fmt: skip

    def _ready(self) -> tuple[_NodeApt, str]:
        target = security_target(self._target())
        key = recipe_key({"target": [target.name, target.architecture, target.sources]})
        apt = _NodeApt(self._cache.work(f"apt-updates-{key[:12]}"), target)
        apt.update()
        return apt, target.architecture

    def _of_all(self, apt: _NodeApt, architecture: str) -> Iterator[ResolvedPackage]:
        """Nodes with the same packages are asked for once."""
        kinds = {
            (tuple(sorted(node.packages.items())), node.held): node
            for node in self._request.installed.nodes
        }
        for node in kinds.values():
            found = apt.upgrades(node, architecture)
            if len(found) > MOST_UPDATES:
                raise BundleRefused(
                    f"node {node.node} lacks {len(found)} updates, expected at most {MOST_UPDATES}",
                    hint=f"see what it says of its packages: appliance node ssh {node.node} -- "
                    "dpkg -l; then write the list again: appliance site packages --out FILE",
                )
            yield from found


def built(deb: Path) -> date:
    """The day on which a package was built, as its own signed bytes say.

    dpkg-deb writes the time of the newest entry of the changelog; Packages files have no time.

    Raises:
        BuildFailed: the file is no package.
    """
    with deb.open("rb") as stream:
        head = stream.read(len(_AR) + 60)
    text = head[_TIME].strip()
    if not head.startswith(_AR) or not text.isdigit():
        raise BuildFailed(f"{deb.name} is no Debian package", hint="run the same command again")
    return datetime.fromtimestamp(int(text), UTC).date()


def _file(item: ResolvedPackage) -> FetchedFile:
    return FetchedFile(
        f"updates/pool/{item.filename}", item.sha256, item.size,
        name=item.name, version=item.version, origin=item.uri,
    )  # fmt: skip


def nodes_of(request: UpdatesRequest) -> Sequence[str]:
    """The names of the nodes of the list."""
    return [node.node for node in request.installed.nodes]
