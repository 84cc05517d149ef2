"""Signatures of bundles, with real keys and the real ssh-keygen."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from appliance.adapters.bundle.directory import BundleDirectory
from appliance.adapters.bundle.signature import SshSigner
from appliance.adapters.local.cache import Cache
from appliance.builder.sign import sign_bundle
from appliance.errors import BundleRefused, CommandFailed, ConfigError, Refused
from appliance.model.bundle.signature import NAMESPACE, Signature
from tests.prerequisites import require
from tests.unit.bundle.signing import PASSPHRASE, allow, askpass, make_key, public
from tests.unit.bundle.test_bundle_directory import Maker


@pytest.fixture(autouse=True)
def _ssh_keygen() -> None:
    require("ssh-keygen")


@dataclass
class Desk:
    """A bundle, the key of ada, who may sign, and that of bob, who may not."""

    maker: Maker
    ada: Path
    bob: Path
    allowed: Path

    @property
    def directory(self) -> Path:
        return self.maker.directory

    def sign(self, key: Path) -> bool:
        return SshSigner(self.directory, key).sign()

    def signature(self) -> Signature:
        return BundleDirectory(self.directory).signature(self.allowed)

    def change_manifest(self) -> None:
        with (self.directory / "manifest.json").open("ab") as stream:
            stream.write(b" ")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    maker = Maker(Cache(tmp_path / "cache"), tmp_path / "bundle")
    maker.make()
    ada, bob = make_key(tmp_path, "ada"), make_key(tmp_path, "bob")
    return Desk(maker, ada, bob, allow(tmp_path / "allowed_signers", ada=ada))


def signed_by_ada(desk: Desk) -> None:
    desk.sign(desk.ada)


def signed_by_bob(desk: Desk) -> None:
    desk.sign(desk.bob)


def nothing(_desk: Desk) -> None:
    pass


def changed_afterwards(desk: Desk) -> None:
    desk.sign(desk.ada)
    desk.change_manifest()


def another_manifests(desk: Desk) -> None:
    """The signature of another bundle, put beside this one."""
    manifest = desk.directory / "manifest.json"
    ours = manifest.read_bytes()
    desk.change_manifest()
    desk.sign(desk.ada)
    manifest.write_bytes(ours)


def for_another_purpose(desk: Desk) -> None:
    manifest = desk.directory / "manifest.json"
    words = ["ssh-keygen", "-q", "-Y", "sign", "-f", str(desk.ada), "-n", "git", str(manifest)]
    subprocess.run(words, check=True, capture_output=True)


def allowed_for_another_purpose(desk: Desk) -> None:
    desk.sign(desk.ada)
    desk.allowed.write_text(f'ada@example namespaces="git" {public(desk.ada)}\n')


def damaged(desk: Desk) -> None:
    desk.sign(desk.ada)
    (desk.directory / "manifest.json.sig").write_text("garbage\n")


def dangling(desk: Desk) -> None:
    (desk.directory / "manifest.json.sig").symlink_to("/nowhere")


def nobody_is_allowed(desk: Desk) -> None:
    desk.sign(desk.ada)
    desk.allowed.write_text("")


def allowed_signers_are_nonsense(desk: Desk) -> None:
    desk.sign(desk.ada)
    desk.allowed.write_text("what is this\n")


def several_on_a_line(desk: Desk) -> None:
    desk.sign(desk.ada)
    desk.allowed.write_text(f"ada@example,*@factory.example {public(desk.ada)}\n")


@pytest.mark.parametrize(
    ("case", "state", "words"),
    [
        (signed_by_ada, "good", "good, by ada@example (ED25519 SHA256:"),
        (several_on_a_line, "good", "good, by ada@example (ED25519 SHA256:"),
        (nothing, "missing", "missing: this bundle is not signed"),
        (signed_by_bob, "wrong", "made with the key ED25519 SHA256:"),
        (changed_afterwards, "wrong", "is not a signature of this manifest: "),
        (another_manifests, "wrong", "is not a signature of this manifest: "),
        (for_another_purpose, "wrong", "namespace does not match"),
        (allowed_for_another_purpose, "wrong", "does not allow: "),
        (damaged, "wrong", "is not a signature of this manifest: "),
        (dangling, "wrong", "is not a signature of this manifest: "),
        (nobody_is_allowed, "wrong", "does not allow: "),
        (allowed_signers_are_nonsense, "wrong", "does not allow: "),
    ],
)
def test_a_signature_is_judged(
    desk: Desk, case: Callable[[Desk], None], state: str, words: str
) -> None:
    case(desk)
    found = desk.signature()
    assert found.state == state
    assert words in found.words()
    assert (found.fault is None) == (state == "good")
    assert (found.signer == "ada@example") == (state == "good")


def test_bytes_that_are_no_text_are_signed_as_they_are(desk: Desk) -> None:
    manifest = desk.directory / "manifest.json"
    manifest.write_bytes(
        manifest.read_bytes().replace(b'"tool_version": "0"', b'"tool_version": "\xc3\xbc"')
    )
    desk.sign(desk.ada)
    assert desk.signature().state == "good"


def test_without_allowed_signers_it_is_only_said_whether_there_is_one(desk: Desk) -> None:
    assert BundleDirectory(desk.directory).signature().words() == "none"
    desk.sign(desk.bob)
    found = BundleDirectory(desk.directory).signature()
    assert found.words() == "present, not checked (pass --allowed-signers)"
    assert found.fault is None


@pytest.mark.parametrize("name", ["nowhere", "."])
def test_allowed_signers_that_cannot_be_read_are_refused(desk: Desk, name: str) -> None:
    desk.allowed = desk.allowed.parent / name
    with pytest.raises(ConfigError, match=r"the allowed signers .* cannot be read"):
        desk.signature()


def test_signing_again_says_that_it_replaced_one(desk: Desk) -> None:
    assert desk.sign(desk.bob) is False
    assert desk.sign(desk.ada) is True
    assert desk.signature().state == "good"
    assert desk.maker.faults() == []


def test_a_built_bundle_keeps_its_signature_until_its_manifest_changes(desk: Desk) -> None:
    desk.sign(desk.ada)
    desk.maker.created = "2026-02-02T00:00:00Z"
    desk.maker.make()
    assert desk.maker.signature_removed is False
    assert desk.signature().state == "good"
    desk.maker.tool = b"another tool"
    desk.maker.make()
    assert desk.maker.signature_removed is True
    assert desk.signature().state == "missing"
    desk.maker.make()
    assert desk.maker.signature_removed is False


def test_a_manifest_of_the_same_meaning_in_other_bytes_loses_its_signature(desk: Desk) -> None:
    desk.change_manifest()
    desk.sign(desk.ada)
    desk.maker.make()
    assert desk.maker.signature_removed is True
    assert desk.signature().state == "missing"


def test_a_key_with_a_passphrase_is_asked_for_by_ssh_keygen_itself(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = make_key(tmp_path, "locked", PASSPHRASE)
    allow(desk.allowed, ada=key)
    for name, value in askpass(tmp_path, PASSPHRASE).items():
        monkeypatch.setenv(name, value)
    desk.sign(key)
    assert desk.signature().state == "good"


def test_a_wrong_passphrase_leaves_no_signature(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = make_key(tmp_path, "locked", PASSPHRASE)
    for name, value in askpass(tmp_path, "a wrong guess").items():
        monkeypatch.setenv(name, value)
    before = {path.name for path in desk.directory.iterdir()}
    with pytest.raises(CommandFailed, match="ssh-keygen failed") as failed:
        desk.sign(key)
    assert "ssh-add" in (failed.value.hint or "")
    assert "a wrong guess" not in str(failed.value.details)
    assert {path.name for path in desk.directory.iterdir()} == before


def test_what_is_no_bundle_is_not_signed(desk: Desk) -> None:
    (desk.directory / "manifest.json").unlink()
    with pytest.raises(BundleRefused, match=r"manifest\.json cannot be read"):
        desk.sign(desk.ada)


def test_only_a_whole_bundle_is_signed(desk: Desk) -> None:
    (desk.directory / "bin/tool").write_bytes(b"looT")
    said: list[str] = []
    with pytest.raises(BundleRefused, match="damaged and was not signed: bin/tool: sha256"):
        sign_bundle(
            BundleDirectory(desk.directory), SshSigner(desk.directory, desk.ada), said.append
        )
    assert desk.signature().state == "missing"
    assert said == ["checking every byte of the bundle"]


def test_without_ssh_keygen_nothing_is_signed_or_checked(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    desk.sign(desk.ada)
    monkeypatch.setenv("PATH", str(tmp_path))
    for act in (desk.signature, lambda: desk.sign(desk.ada)):
        with pytest.raises(Refused, match="a program is missing: ssh-keygen") as refused:
            act()
        assert "openssh-client" in (refused.value.hint or "")
    assert BundleDirectory(desk.directory).signature().state == "unchecked"


def test_the_namespace_is_part_of_what_sites_have_written_down() -> None:
    assert NAMESPACE == "appliance-bundle@hyperscalers"
