"""What the services node keeps is believed where somebody outside of that node vouches for it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.bundle.known import keeper, read_known
from appliance.adapters.bundle.mirror import read_mirror
from appliance.adapters.bundle.signature import SshSigner, judge_signature
from appliance.adapters.ssh.call import Answer
from appliance.adapters.ssh.nodes import SshNodes
from appliance.errors import BundleRefused, Interrupted, NodeUnreachable, PreflightFailed
from appliance.model.bundle.mirror import KnownBundle
from appliance.model.bundle.signature import MOST_BYTES
from appliance.model.checks.preflight import preflight
from appliance.model.components.artifacts.unmet import mirrored
from appliance.model.plan.inventory import run_inventory
from appliance.model.site.settings import Node
from appliance.model.state.desired import Desired
from appliance.model.state.observed import Observed
from appliance.model.state.plan import Choice
from appliance.workflows.install import InstallRequest, InstallResult, install
from tests import samples
from tests.fakes import (
    FakeBundle,
    FakeRack,
    run,
)
from tests.sessions import fake_session
from tests.unit.bundle.signing import allow, make_key

HONEST = json.dumps(samples.manifest().as_json())


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def evil() -> str:
    """Another's manifest: every digest and version in it is the attacker's."""
    found = samples.manifest().as_json()
    found["images"] = dict.fromkeys(found["images"], "sha256:" + "e" * 64)
    found["packages"] = dict.fromkeys(found["packages"], "99:evil")
    found["files"] = [{"path": "apt/Packages", "sha256": "e" * 64, "size": 1}]
    return json.dumps(found)


class Services(SshNodes):
    """A services node with files in custody."""

    def __init__(self, manifest: str, signature: str | None = None) -> None:
        self.files = {"manifest.json": manifest, "manifest.json.sig": signature}
        self.asked: list[str] = []
        self.silent_after = 99

    def run(self, node: Node, command: str, *, stdin: bytes = b"", timeout: float = 60) -> Answer:
        del stdin, timeout
        assert node.name == "cp1"
        self.asked.append(command)
        if len(self.asked) > self.silent_after:
            raise NodeUnreachable("cp1: gone")
        content = self.files[command.rpartition("/")[2]]
        return Answer(1, "", "no such file") if content is None else Answer(0, content, "")


class Desk:
    """A site, the keys of ada, who may sign, and of bob, who may not."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ada, self.bob = make_key(folder, "ada"), make_key(folder, "bob")
        self.allowed = allow(folder / "allowed_signers", ada=self.ada)
        self.said: list[str] = []

    def site(self, *, signers: bool) -> Desired:
        changes: dict[str, Any] = {"bundle_signers": str(self.allowed)} if signers else {}
        site = replace(samples.site(**changes), directory=self.folder)
        return samples.desired(site, with_bundle=False)

    def signed(self, manifest: str, key: Path) -> str:
        folder = self.folder / "bundle"
        folder.mkdir(exist_ok=True)
        (folder / "manifest.json").write_text(manifest)
        SshSigner(folder, key).sign()
        return (folder / "manifest.json.sig").read_text()

    def read(self, services: Services, *, signers: bool) -> Desired:
        return read_mirror(self.site(signers=signers), services, self.said.append)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def rack(desired: Desired, *, installed: bool) -> FakeRack:
    """Its services node says that it holds, whole, what it serves."""
    found = FakeRack(desired)
    if installed:
        good = samples.desired(desired.site)
        found.cluster = samples.cluster(good)
        found.documents = {n.name: samples.converged(n, good) for n in desired.site.nodes}
        digest = desired.bundle_digest or sha256(evil())
        found.documents["cp1"]["artifacts"]["bundle_digest"] = digest
    return found


def installing(
    desired: Desired, on: FakeRack, *, dry_run: bool = False, **ports: Any
) -> InstallResult:
    def of_the_bundle(*about: Any) -> Any:
        return [one for one in preflight(*about) if one.check.startswith(("bundle_", "mirrored_"))]

    return install(
        InstallRequest(desired, run(), dry_run=dry_run),
        fake_session(on, **{"preflight": of_the_bundle, "bundle": None, **ports}),
        lambda _plan: True,
    )


def test_what_one_of_the_signers_signed_is_taken_in_silence(desk: Desk) -> None:
    desired = desk.read(Services(HONEST, desk.signed(HONEST, desk.ada)), signers=True)
    assert (desired.bundle_digest, desired.doubt, desk.said) == (sha256(HONEST), None, [])
    assert desired.manifest == samples.manifest()


def test_a_signed_bundle_that_is_not_the_last_given_is_taken_and_said(desk: Desk) -> None:
    """A signature shows the signer, not that the bundle is the newest."""
    keeper(desk.site(signers=True).site, desk.said.append)(sha256(evil()))
    desired = desk.read(Services(HONEST, desk.signed(HONEST, desk.ada)), signers=True)
    assert (desired.bundle_digest, desired.doubt) == (sha256(HONEST), None)
    (said,) = desk.said
    assert sha256(HONEST)[:12] in said
    assert sha256(evil())[:12] in said
    assert "appliance install --bundle DIR" in said
    keeper(desk.site(signers=True).site, desk.said.append)(sha256(HONEST))
    desk.said.clear()
    desk.read(Services(HONEST, desk.signed(HONEST, desk.ada)), signers=True)
    assert desk.said == []


@pytest.mark.parametrize(
    ("signature", "words"),
    [
        (lambda _: None, "missing or not readable"),
        (lambda desk: desk.signed(evil(), desk.bob), "made with the key ED25519"),
        (lambda desk: desk.signed(HONEST, desk.ada), "is not a signature of this manifest"),
        (lambda _: "", "is not a signature of this manifest"),
        (lambda _: "x" * (MOST_BYTES + 1), "larger than"),
        (lambda _: "\x00\udcff{{ 1 }}".encode("utf-8", "replace").decode(), "is not a signature"),
    ],
)
def test_nothing_is_taken_from_a_manifest_that_none_of_the_signers_signed(
    desk: Desk, signature: Callable[[Desk], str | None], words: str
) -> None:
    desired = desk.read(Services(evil(), signature(desk)), signers=True)
    assert (desired.manifest, desired.bundle_digest) == (None, None)
    assert desired.doubt is not None
    assert words in desired.doubt.seen
    (said,) = desk.said
    assert said.startswith("cp1: its bundle is not used: found a bundle")
    bare = rack(desired, installed=False)
    with pytest.raises(PreflightFailed, match="mirrored_bundle") as refused:
        installing(desired, bare)
    assert refused.value.exit_code == 3
    assert "--bundle DIR" in (refused.value.hint or "")
    assert bare.plays == []


def test_without_ssh_keygen_the_mirrors_signature_is_not_accepted(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    signature = desk.signed(HONEST, desk.ada)
    monkeypatch.setenv("PATH", str(desk.folder / "empty"))
    desired = desk.read(Services(HONEST, signature), signers=True)
    assert desired.manifest is None
    assert desired.doubt is not None
    assert "a program is missing: ssh-keygen" in desired.doubt.seen


def test_a_services_node_that_falls_silent_before_its_signature_leaves_no_manifest(
    desk: Desk,
) -> None:
    services = Services(evil(), "x")
    services.silent_after = 1
    assert desk.read(services, signers=True) == desk.site(signers=True)
    assert len(services.asked) == 2


def test_the_bundle_that_was_handed_over_is_known_again(desk: Desk) -> None:
    site = desk.site(signers=False).site
    keeper(site, desk.said.append)(sha256(HONEST))
    services = Services(HONEST)
    desired = desk.read(services, signers=False)
    assert (desired.manifest, desired.doubt, desk.said) == (samples.manifest(), None, [])
    assert len(services.asked) == 1, "no signature is asked for where nobody may sign"
    path = desk.folder / "known_bundle"
    assert path.read_text() == f"{sha256(HONEST)}  manifest.json\n"
    assert path.stat().st_mode & 0o777 == 0o644


def test_another_bundle_than_was_handed_over_changes_nothing(desk: Desk) -> None:
    """Root on the services node puts a manifest of its own there."""
    keeper(desk.site(signers=False).site, desk.said.append)(sha256(HONEST))
    desired = desk.read(Services(evil()), signers=False)
    assert desired.manifest is None
    (said,) = desk.said
    assert sha256(evil())[:12] in said
    assert f"{sha256(HONEST)[:12]}, the last --bundle" in said
    bare = rack(desired, installed=False)
    with pytest.raises(PreflightFailed, match="mirrored_bundle"):
        installing(desired, bare)
    assert bare.plays == []
    with pytest.raises(BundleRefused, match="has no bundle that the site accepts"):
        run_inventory(desired, None, None, bundle_directory=None)  # type: ignore[arg-type]


def test_a_healthy_site_has_an_empty_plan_whatever_its_mirror_contains(desk: Desk) -> None:
    keeper(desk.site(signers=False).site, desk.said.append)(sha256(HONEST))
    desired = desk.read(Services(evil()), signers=False)
    healthy = rack(desired, installed=True)
    assert installing(desired, healthy).steps == ()
    assert healthy.plays == []


def test_where_nothing_is_known_it_is_said_and_the_site_goes_on(desk: Desk) -> None:
    desired = desk.read(Services(HONEST), signers=False)
    assert (desired.manifest, desired.doubt) == (samples.manifest(), None)
    (said,) = desk.said
    assert "the bundle on cp1 is not verified" in said
    assert "appliance install --bundle DIR" in said
    assert read_known(desired.site) == KnownBundle(), "being there is no reason to believe it later"


@pytest.mark.parametrize(
    "content",
    ["", "\n", "0" * 64, f"{'A' * 64}  manifest.json\n", f"{'0' * 64}  manifest.json\nmore", "\xff",
     "<<<<<<< HEAD\n", "0" * 5000],
)  # fmt: skip
def test_what_is_written_down_and_cannot_be_read_is_no_licence(desk: Desk, content: str) -> None:
    (desk.folder / "known_bundle").write_bytes(content.encode("latin-1"))
    desired = desk.read(Services(HONEST), signers=False)
    assert desired.manifest is None
    assert desired.doubt is not None
    assert "known_bundle" in desired.doubt.seen
    keeper(desired.site, desk.said.append)(sha256(HONEST))
    assert desk.read(Services(HONEST), signers=False).manifest is not None


def test_a_folder_in_its_place_is_named_and_stops_no_install(desk: Desk) -> None:
    (desk.folder / "known_bundle").mkdir()
    keeper(desk.site(signers=False).site, desk.said.append)(sha256(HONEST))
    assert "known_bundle could not be written" in desk.said[0]


class HandedOver:
    """An install with a bundle at hand: what is written down, and when."""

    def __init__(self, *, installed: bool) -> None:
        desired = samples.desired()
        self.rack = rack(desired, installed=installed)
        self.kept: list[tuple[str, int]] = []

    def install(self, **ports: Any) -> InstallResult:
        def keep(digest: str) -> None:
            self.kept.append((digest, len(self.rack.plays)))

        return installing(
            self.rack.desired,
            self.rack,
            **{"bundle": FakeBundle(samples.manifest()), "handed_over": keep, **ports},
        )


def test_it_is_written_down_once_the_services_node_holds_it() -> None:
    bench = HandedOver(installed=False)
    steps = bench.install().steps
    (kept,) = bench.kept
    assert kept == (samples.BUNDLE_DIGEST, steps.index("artifacts") + 1)


def test_it_is_written_down_where_nothing_is_to_do() -> None:
    bench = HandedOver(installed=True)
    assert bench.install().steps == ()
    assert bench.kept == [(samples.BUNDLE_DIGEST, 0)]


def test_nothing_is_written_down_by_who_only_looks_or_has_no_bundle() -> None:
    bench = HandedOver(installed=True)
    bench.install(dry_run=True)
    bench.install(bundle=None)
    assert bench.kept == []


def test_a_step_that_was_cut_off_leaves_the_bundle_before_it_written_down() -> None:
    bench = HandedOver(installed=False)
    bench.rack.fail = {"artifacts": KeyboardInterrupt()}
    with pytest.raises(Interrupted):
        bench.install()
    assert bench.kept == []
    bench.rack.fail = {}
    bench.install()
    assert [digest for digest, _ in bench.kept] == [samples.BUNDLE_DIGEST]


def test_a_bundle_that_was_signed_after_it_was_handed_over_brings_its_signature(
    desk: Desk,
) -> None:
    """Its manifest is the same, so nothing else of it is due."""
    text = desk.signed(HONEST, desk.ada)
    signature = judge_signature(text.encode(), HONEST.encode(), desk.allowed)
    assert (signature.state, signature.text) == ("good", text)
    desired = replace(samples.desired(), signature=signature)
    node = desired.site.services_node
    document = samples.converged(node, desired)
    held = samples.node_facts({node.name: document})[node.name]
    assert list(mirrored(held, desired)) == ["the signature of its bundle is missing or differs"]
    document["artifacts"]["signature_sha256"] = sha256(text)
    held = samples.node_facts({node.name: document})[node.name]
    assert list(mirrored(held, desired)) == []
    variables = run_inventory(
        desired,
        Observed({}, samples.cluster(desired)),
        Choice("cp1"),
        bundle_directory="/media/bundle",
    )["all"]["vars"]
    assert variables["artifact_server_signature"] == text
