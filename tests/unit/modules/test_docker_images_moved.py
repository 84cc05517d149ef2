"""Bringing the images of pods from Docker into containerd: from where, and what stops it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.modules.loading import load

if TYPE_CHECKING:
    from types import ModuleType

TAG, DIGEST = "r:5000/etcd:3.5.6-0", "r:5000/etcd@sha256:e"
BY_HAND = "customer/agent:1"
UNNAMED = "r:5000/flannel@sha256:f"


@pytest.fixture(scope="module")
def module() -> ModuleType:
    return load("docker_images_moved", role="kubernetes_runtime")


class Stores:
    """Plays docker, crictl and ctr: a registry, Docker's store, and containerd's."""

    def __init__(self) -> None:
        self.registry = {DIGEST, UNNAMED}
        self.docker = [
            {"RepoTags": [TAG], "RepoDigests": [DIGEST]},
            {"RepoTags": [BY_HAND], "RepoDigests": []},
            {"RepoTags": [], "RepoDigests": [UNNAMED]},
        ]
        self.containerd: set[str] = set()
        self.saved: list[str] = []
        self.imports = True

    def __call__(self, argv: list[str], _seconds: int) -> tuple[int, str, str]:
        words = argv[:2]
        if words == ["docker", "ps"]:
            return 0, "c1\nc2\nc3\nc4\n", ""
        if words == ["docker", "inspect"]:
            return 0, "sha256:1\nsha256:2\nsha256:3\nsha256:1\n", ""
        if words == ["docker", "image"]:
            assert argv[3:] == ["sha256:1", "sha256:2", "sha256:3"]
            return 0, json.dumps(self.docker), ""
        if words == ["crictl", "inspecti"]:
            return int(argv[2] not in self.containerd), "", ""
        return self._change(argv)

    def _change(self, argv: list[str]) -> tuple[int, str, str]:
        if argv[:2] == ["crictl", "pull"]:
            if argv[2] not in self.registry:
                return 1, "", "not found"
            self.containerd.add(argv[2])
        elif argv[:5] == ["ctr", "--namespace", "k8s.io", "images", "tag"]:
            self.containerd.add(argv[7])
        elif argv[:2] == ["docker", "save"]:
            self.saved = argv[4:]
            Path(argv[3]).write_text("image")
        elif argv[:5] == ["ctr", "--namespace", "k8s.io", "images", "import"] and self.imports:
            self.containerd |= set(self.saved)
        else:
            return 1, "", "no space left on device"
        return 0, "", ""


def moved(module: ModuleType, stores: Stores, folder: Path) -> Any:
    mover = module.Mover(stores, str(folder))
    for tags, digests in module.images_of_pods(stores):
        if mover.lacks(tags or digests):
            mover.bring(tags, digests)
    return mover


def test_an_image_comes_from_its_registry_and_one_made_by_hand_from_docker(
    module: ModuleType, tmp_path: Path
) -> None:
    stores = Stores()
    mover = moved(module, stores, tmp_path)
    assert (mover.pulled, mover.copied) == ([TAG, UNNAMED], [BY_HAND])
    assert stores.containerd == {TAG, DIGEST, BY_HAND, UNNAMED}
    assert list(tmp_path.iterdir()) == []
    again = moved(module, stores, tmp_path)
    assert (again.pulled, again.copied) == ([], [])


def test_docker_gives_every_image_where_the_registry_is_away(
    module: ModuleType, tmp_path: Path
) -> None:
    stores = Stores()
    stores.registry = set()
    mover = moved(module, stores, tmp_path)
    assert mover.copied == [TAG, BY_HAND, UNNAMED]


def test_an_image_that_neither_gives_is_named_and_no_file_is_left(
    module: ModuleType, tmp_path: Path
) -> None:
    stores = Stores()
    stores.imports = False
    with pytest.raises(module.MoveError, match="no space left"):
        moved(module, stores, tmp_path)
    assert list(tmp_path.iterdir()) == []
