"""A converged site with Run:ai, on which the plays of an upgrade have an effect."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from appliance.model.bundle.vendor.bundle import VendorBundle
from appliance.model.components.runai.origin import origins
from appliance.model.components.runai.upgrade.record import ClaimedVolume
from appliance.model.plan.play import Play
from appliance.model.state.certificates import values_digest
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.desired import Desired
from tests import samples
from tests.fakes import FakeRack
from tests.vendor_bundles import judged

SPACES = {"runai-backend": "runai-backend", "runai-cluster": "runai"}
CRDS = {"deploy/runai-crds.yaml": 1}


def bundle(version: str, **changes: Any) -> VendorBundle:
    """A whole bundle of a version, with a digest of its own."""
    found = judged(version, sha256=(version.replace(".", "") * 64)[:64], **changes)
    files = {**found.contents.files, **CRDS}
    return VendorBundle(replace(found.contents, files=files))


class UpgradeRack(FakeRack):
    """Run:ai of one version is installed; ``volumes`` are those of its claims."""

    def __init__(self, current: str = "2.7.1", target: str = "2.8.2") -> None:
        site = samples.site(runai={"vendor_bundle": f"runai-{target}.tar"})
        desired = replace(samples.desired(site), vendor_bundle=bundle(target))
        super().__init__(desired)
        self.installed = bundle(current)
        before = replace(desired, vendor_bundle=self.installed)
        self.cluster = samples.cluster(before)
        self.documents = {node.name: samples.converged(node, before) for node in site.nodes}
        self.node = site.vendor_node.name
        self.unpack(self.installed)
        self.push(self.installed)
        document = self.documents[self.node]
        document["runai"]["certificate"] = {
            "sha256": samples.BACKEND_CERTIFICATE, "not_after": "2033-01-01T00:00:00Z",
        }  # fmt: skip
        document["filesystems"] = [
            {"mount": "/", "for": ["/var/lib/appliance/runai"], "free_bytes": 10**12}
        ]
        self.volumes: tuple[ClaimedVolume, ...] = (
            ClaimedVolume("pvc-postgresql", "runai-backend/pvc-postgresql", "Delete"),
            ClaimedVolume("pvc-thanos-receive", "runai-backend/pvc-thanos-receive", "Retain"),
        )

    def read_claimed_volumes(self) -> tuple[ClaimedVolume, ...]:
        return self.volumes

    @property
    def runai(self) -> dict[str, Any]:
        found: dict[str, Any] = self.documents[self.node].setdefault("runai", {})
        return found

    @property
    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = self.runai["upgrade"]
        return found

    def unpack(self, found: VendorBundle) -> None:
        path = f"/var/lib/appliance/runai/{found.sha256[:16]}"
        self.runai.update(
            bundle={**found.record(), "path": path},
            unpacked=True,
            prepared=self.desired.site.settings.registry,
            admin_cli=True,
        )

    def push(self, found: VendorBundle) -> None:
        services = self.documents[self.desired.site.services_node.name]
        digest = f"sha256:{'e' * 64}"
        services["registry"]["images"] |= {one.names[-1]: digest for one in found.contents.images}

    def release(self, found: VendorBundle, desired: Desired, *names: str, **changes: Any) -> None:
        assert isinstance(self.cluster, Cluster)
        self.cluster = replace(
            self.cluster,
            releases=tuple(
                replace(
                    one,
                    revision=one.revision + 1,
                    origin_sha256=values_digest(origins(desired, found)[one.name]),
                    **changes,
                )
                if one.name in names
                else one
                for one in self.cluster.releases
            ),
        )

    def play(self, play: Play, on_task: Any) -> None:
        self.plays.append(play)
        on_task(self.node, f"{play.playbook} : Do it", True)
        if play.playbook in self.fail:
            raise self.fail[play.playbook]
        if play.playbook not in self.without_effect:
            getattr(self, f"_{play.playbook}")(play.inventory["all"]["vars"])

    def _runai_backup(self, given: dict[str, Any]) -> None:
        self.volumes = tuple(one._replace(policy="Retain") for one in self.volumes)
        self.runai["upgrade"] = {
            "source": given["runai_upgrade_source"],
            "target_sha256": given["runai_upgrade_target_sha256"],
            "target_version": given["runai_upgrade_target_version"],
            "revisions": given["runai_upgrade_revisions"],
            "folder": given["runai_upgrade_folder"],
            "dump": {
                **{"path": "/x/database.sql", "bytes": 9, "sha256": "d" * 64, "tables": 3},
                "taken": self.documents[self.node]["clock"]["epoch"],
            },
            "dump_is_there": True,
        }

    def _runai_prepare(self, _given: dict[str, Any]) -> None:
        target = self.desired.vendor_bundle
        assert target is not None
        self.unpack(target)
        self.push(target)
        self.record.update(merged=True, differences=["runai-backend: grafana.enabled: true is new"])

    def _runai_upgrade(self, _given: dict[str, Any]) -> None:
        assert self.desired.vendor_bundle is not None
        self.release(self.desired.vendor_bundle, self.desired, *SPACES, status="deployed")
        self.record["verified"] = True

    def _runai_rollback(self, _given: dict[str, Any]) -> None:
        self.release(self.installed, self.desired, *SPACES, status="deployed")
        self.unpack(self.installed)
        self.record["rolled_back"] = True
