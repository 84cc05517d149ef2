"""A vendor bundle on a node: what is unpacked, what ran, and what the registry has of it."""

from __future__ import annotations

import hashlib
import importlib
import json
import subprocess
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from tests.unit.modules.loading import load
from tests.unit.modules.test_registry_push import FakeRegistry, digest_of, served

__all__ = ["served"]

info = load("vendor_bundle_info", role="runai_bundle")
unpacking = load("vendor_bundle_unpack", role="runai_bundle")
preparing = load("vendor_bundle_prepare", role="runai_bundle")
vendor_bundle = importlib.import_module("ansible.module_utils.vendor_bundle")
CONFIG = digest_of(b"config backend").removeprefix("sha256:")


class Module:
    """What the module is given, and the units that it starts, run at once."""

    check_mode = False

    def __init__(self, folder: Path) -> None:
        content = b"bundle"
        self.params: dict[str, Any] = {
            "folder": str(folder),
            "registry": "registry.test:5000",
            "login_dir": "/etc/appliance/registry/login",
            "ca_path": "/nowhere",
            "is_ours": True,
            "namespace": "runai-backend",
            "kubeconfig": "/k",
            "kubectl": "/kubectl",
            "patience_seconds": 1,
            "deadline_seconds": 5,
            "record": {
                "sha256": hashlib.sha256(content).hexdigest(),
                "size": len(content),
                "deploy": "deploy",
                "pushes": [
                    {"tag": "gcr.test/x/backend:1", "names": ["backend:1"], "config": CONFIG}
                ],
            },
        }


def registry_of(found: tuple[FakeRegistry, Any]) -> Any:
    known = found[1]
    fresh = preparing.Registry.__new__(preparing.Registry)
    vars(fresh).update(vars(known))
    return fresh


def image(*names: str, config: str = CONFIG) -> dict[str, Any]:
    return {"tag": "t", "names": list(names), "config": config}


def test_an_image_is_found_under_any_of_its_names(served: tuple[FakeRegistry, Any]) -> None:
    served[0].put("backend", "1")
    registry = registry_of(served)
    assert registry.fault(image("other:1", "backend:1")) is None
    assert registry.fault(image("backend:1", config="")) is None
    assert registry.faults([image("other:1"), image("backend:1")]) == {"t": "absent"}


def test_another_image_of_that_name_or_a_lost_blob_is_reported(
    served: tuple[FakeRegistry, Any],
) -> None:
    served[0].put("backend", "1")
    registry = registry_of(served)
    assert "another image" in registry.fault(image("backend:1", config="0" * 64))
    served[0].blobs.clear()
    assert "is missing" in registry.fault(image("backend:1"))
    served[0].broken = True
    fault = registry.fault(image("backend:1"))
    assert (fault, type(fault)) == ("the registry says 500", preparing.Unsure)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"[" * 100_000,
        b'{"config": [], "layers": []}',
        b'{"config": {"digest": 7}, "layers": []}',
        b'{"config": {"digest": "sha256:aa/../../x"}, "layers": []}',
        b'{"config": {"digest": "sha256:%s"}, "layers": null}' % (b"a" * 64),
    ],
)
def test_what_is_no_manifest_of_an_image_is_reported(body: bytes) -> None:
    with pytest.raises(preparing.RegistryError, match="no manifest"):
        preparing.blobs_of(body)


@pytest.mark.parametrize(("silences", "told"), [(3, None), (4, "does not say whether")])
def test_a_registry_that_does_not_say_is_asked_again_and_nothing_is_pushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, silences: int, told: str | None
) -> None:
    module = Module(tmp_path)
    asked: list[int] = []

    class Registry:
        def __init__(self, *_: object) -> None: ...

        def faults(self, images: list[dict[str, Any]]) -> dict[str, str]:
            asked.append(len(images))
            said = preparing.Unsure("the registry says 503")
            return {one["tag"]: said for one in images} if len(asked) <= silences else {}

    monkeypatch.setattr(preparing, "Registry", Registry)
    monkeypatch.setattr(preparing, "PAUSE_SECONDS", 0)
    preparation = preparing.Preparation(module, vendor_bundle.Bundle(module.params))
    with pytest.raises(vendor_bundle.BundleError, match=told) if told else nullcontext():
        assert preparation.absent() == {}
    assert asked == [1] * 4


Unpacked = Callable[[], Any]


SYSTEMCTL = """#!/bin/sh
cd "$(dirname "$0")"
case "$*" in
    *is-active*) test -e running ;;
    start*) : >running ;;
    stop*) rm running ;;
esac && echo "$*" >>asked
"""


def unpack_at_once(monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[str]:
    """Run the scripts of units directly, and remember which; Docker runs."""
    ran = []
    programs = folder / "programs"
    programs.mkdir()
    (programs / "systemctl").write_text(SYSTEMCTL)
    (programs / "systemctl").chmod(0o755)
    (programs / "running").touch()

    class Job:
        def __init__(self, name: str, *_: Any, **__: Any) -> None:
            self._name = name

        def run(
            self, command: list[str], environment: dict[str, str], directory: str, _: int
        ) -> tuple[dict[str, Any], bool]:
            ran.append(self._name)
            done = subprocess.run(
                command, cwd=directory, capture_output=True, text=True, check=False,
                env={**environment, "PATH": f"{programs}:/usr/bin:/bin"},
            )  # fmt: skip
            told = {"job": self._name, "rc": done.returncode, "stderr": done.stderr}
            return told, False

    monkeypatch.setattr(vendor_bundle, "NodeJob", Job)
    return ran


def received(folder: Path, content: bytes | None = None) -> tuple[Module, Path]:
    """A bundle that was received: a tar with a script."""
    source = folder / "source"
    (source / "deploy").mkdir(parents=True)
    (source / "deploy/prepare_installation.sh").write_text(
        '#!/bin/sh\necho "$REGISTRY_URL" > ran\n'
    )
    module = Module(folder / "runai")
    incoming = folder / "runai/incoming"
    incoming.mkdir(parents=True)
    tar = folder / "tar"
    subprocess.run(["tar", "-cf", tar, "-C", source, "deploy"], check=True)
    data = tar.read_bytes()
    record = module.params["record"]
    record.update(sha256=hashlib.sha256(data).hexdigest(), size=len(data))
    path = incoming / f"{record['sha256']}.tar"
    path.write_bytes(data if content is None else content)
    return module, path


def test_what_was_received_is_verified_unpacked_and_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = unpack_at_once(monkeypatch, tmp_path)
    module, tar = received(tmp_path)
    bundle = vendor_bundle.Bundle(module.params)
    assert not bundle.is_unpacked()
    told = unpacking.converge(module, bundle)
    assert told == {"changed": True, "unpacked": True, "path": str(bundle.path)}
    assert (bundle.deploy / "prepare_installation.sh").is_file()
    assert not tar.exists()
    kept = json.loads((tmp_path / "runai/bundle.json").read_text())
    assert kept["path"] == str(bundle.path)
    assert info.look(module, bundle) == {"changed": False, "unpacked": True, "path": kept["path"]}
    assert unpacking.converge(module, bundle)["changed"] is False
    assert ran == ["runai-unpack"]


def test_the_same_bundle_under_another_name_is_unpacked_already(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpack_at_once(monkeypatch, tmp_path)
    module = Module(tmp_path)
    bundle = vendor_bundle.Bundle(module.params)
    bundle.deploy.mkdir(parents=True)
    bundle.keep()
    module.params["record"] |= {"file_name": "download.tar", "new": True}
    renamed = vendor_bundle.Bundle(module.params)
    assert renamed.is_unpacked()
    module.params["record"]["sha256"] = "0" * 64
    assert not vendor_bundle.Bundle(module.params).is_unpacked()


def test_a_part_of_the_tar_says_how_much_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpack_at_once(monkeypatch, tmp_path)
    module, _ = received(tmp_path, b"part")
    with pytest.raises(
        vendor_bundle.BundleError, match=r"has 4 of \d+ bytes: run the same command"
    ):
        unpacking.converge(module, vendor_bundle.Bundle(module.params))


def test_a_tar_with_another_digest_is_removed_and_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpack_at_once(monkeypatch, tmp_path)
    module, tar = received(tmp_path)
    tar.write_bytes(bytes(tar.stat().st_size))
    with pytest.raises(vendor_bundle.BundleError, match="has another digest"):
        unpacking.converge(module, vendor_bundle.Bundle(module.params))
    assert not tar.exists()
    assert not list((tmp_path / "runai").glob("*/deploy"))


@pytest.fixture
def unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Module, Any, list[str]]:
    ran = unpack_at_once(monkeypatch, tmp_path)
    module, _ = received(tmp_path)
    bundle = vendor_bundle.Bundle(module.params)
    unpacking.unpack(bundle, 5)
    asked: list[list[str]] = []

    class Kubectl:
        @classmethod
        def of(cls, _: Any) -> Kubectl:
            return cls()

        def names(self, *_: str) -> list[str]:
            return []

        def call(self, arguments: list[str]) -> None:
            asked.append(arguments)

    monkeypatch.setattr(preparing, "Kubectl", Kubectl)
    return module, bundle, ran


def test_the_script_runs_once_with_the_registry_and_is_remembered(
    unpacked: tuple[Module, Any, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    module, bundle, ran = unpacked
    monkeypatch.setattr(preparing.Preparation, "absent", lambda _: {})
    assert preparing.converge(module, bundle)["changed"] is True
    assert (bundle.deploy / "ran").read_text() == "registry.test:5000\n"
    told = preparing.converge(module, bundle)
    assert (told["changed"], told["verified"]) == (False, ["gcr.test/x/backend:1"])
    assert ran == ["runai-unpack", "runai-prepare"]
    module.params["registry"] = "other.test:5000"
    assert preparing.converge(module, bundle)["changed"] is True


@pytest.mark.parametrize("runs", [True, False])
def test_a_docker_that_does_not_run_is_there_for_the_script_alone(
    unpacked: tuple[Module, Any, list[str]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    runs: bool,
) -> None:
    module, bundle, _ = unpacked
    programs = tmp_path / "programs"
    if not runs:
        (programs / "running").unlink()
    monkeypatch.setattr(preparing.Preparation, "absent", lambda _: {})
    assert preparing.converge(module, bundle)["changed"] is True
    started = ["start docker.service", "stop docker.socket docker.service"]
    asked = (programs / "asked").read_text().splitlines()
    assert [line for line in asked if "is-active" not in line] == ([] if runs else started)
    assert (programs / "running").exists() is runs


@pytest.mark.parametrize(
    ("fault", "pushed"),
    [
        ("absent", True),
        ("blob sha256:aa is missing", True),
        ("another image of that name (sha256:bb)", False),
        ("the registry says 429", False),
    ],
)
def test_the_script_pushes_over_no_image_of_others(
    unpacked: tuple[Module, Any, list[str]],
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    pushed: bool,
) -> None:
    module, bundle, ran = unpacked
    module.params["is_ours"] = False
    answers = iter([{"gcr.test/x/backend:1": fault}, {}])
    monkeypatch.setattr(preparing.Preparation, "absent", lambda _: next(answers))
    refused = pytest.raises(vendor_bundle.BundleError, match="nothing was pushed")
    with nullcontext() if pushed else refused:
        preparing.converge(module, bundle)
    assert ("runai-prepare" in ran) is pushed


def test_a_script_that_pushed_too_little_is_no_success(
    unpacked: tuple[Module, Any, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    module, bundle, _ = unpacked
    monkeypatch.setattr(
        preparing.Preparation, "absent", lambda _: {"gcr.test/x/backend:1": "absent"}
    )
    with pytest.raises(vendor_bundle.BundleError, match=r"lacks 1 of 1 images: gcr\.test/x/"):
        preparing.converge(module, bundle)
    assert not preparing.Preparation(module, bundle).is_done()


def test_a_script_that_fails_says_so(
    unpacked: tuple[Module, Any, list[str]],
) -> None:
    module, bundle, _ = unpacked
    (bundle.deploy / "prepare_installation.sh").write_text(
        "#!/bin/sh\necho no docker in $DOCKER_CONFIG >&2; exit 3\n"
    )
    with pytest.raises(
        vendor_bundle.BundleError, match="ended with 3: no docker in /etc/appliance/registry/login"
    ):
        preparing.converge(module, bundle)
    assert not preparing.Preparation(module, bundle).is_done()


def test_check_mode_changes_nothing(tmp_path: Path) -> None:
    module, tar = received(tmp_path)
    module.check_mode = True
    assert unpacking.converge(module, vendor_bundle.Bundle(module.params))["changed"] is True
    assert tar.exists()
    assert preparing.converge(module, vendor_bundle.Bundle(module.params))["changed"] is True
