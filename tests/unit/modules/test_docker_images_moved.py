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
GIB = 1 << 30
UNNAMED = "r:5000/flannel@sha256:f"


@pytest.fixture(scope="module")
def module() -> ModuleType:
    return load("docker_images_moved", role="kubernetes_runtime")


def kept_as(name: str) -> str:
    """The name in containerd, which keeps the host: crictl adds it, ctr takes names as they are."""
    return name if name.startswith(("r:5000/", "docker.io/")) else f"docker.io/{name}"


class Stores:
    """Plays docker, crictl and ctr: a registry, Docker's store, and containerd's."""

    def __init__(self) -> None:
        self.registry = {DIGEST: "sha256:1", UNNAMED: "sha256:3"}
        self.docker = [
            {"Id": "sha256:1", "RepoTags": [TAG], "RepoDigests": [DIGEST]},
            {"Id": "sha256:2", "RepoTags": [BY_HAND], "RepoDigests": []},
            {"Id": "sha256:3", "RepoTags": [], "RepoDigests": [UNNAMED]},
        ]
        self.containerd: dict[str, str] = {}
        self.saved: list[str] = []
        self.imports = True
        self.late = 0
        self.shown: dict[str, str] = {}
        self.slept = 0
        self.silent = False
        self.others: list[dict[str, Any]] = [
            {
                "Id": "sha256:5",
                "RepoTags": ["r:5000/old:1"],
                "RepoDigests": ["r:5000/old@sha256:1"],
                "Size": GIB,
            },
            {
                "Id": "sha256:6",
                "RepoTags": ["customer/large:1"],
                "RepoDigests": [],
                "Size": 30 * GIB,
            },
            {
                "Id": "sha256:7",
                "RepoTags": ["customer/tool:1", "customer/tool:2"],
                "RepoDigests": None,
                "Size": GIB,
            },
            {
                "Id": "sha256:8",
                "RepoTags": ["nginx:1"],
                "RepoDigests": ["nginx@sha256:2"],
                "Size": 2 * GIB,
            },
            {"Id": "sha256:9", "RepoTags": [], "RepoDigests": [], "Size": GIB},
        ]

    def __call__(self, argv: list[str], _seconds: int) -> tuple[int, str, str]:
        words = argv[:2]
        if words == ["docker", "ps"]:
            return 0, "c1\nc2\nc3\nc4\n", ""
        if words == ["docker", "inspect"]:
            return 0, "sha256:1\nsha256:2\nsha256:3\nsha256:1\n", ""
        if words == ["docker", "image"]:
            return self._images(argv)
        if words == ["crictl", "inspecti"]:
            return self._inspecti(argv)
        return self._change(argv)

    def _inspecti(self, argv: list[str]) -> tuple[int, str, str]:
        assert argv[2:4] == ["--output", "json"]
        found = (self.containerd if self.slept >= self.late else self.shown).get(kept_as(argv[4]))
        if self.silent:
            return 1, "", "FATA[0002] connect: context deadline exceeded"
        if found is None:
            return 1, "", f'FATA[0000] no such image "{argv[4]}" present'
        return 0, json.dumps({"status": {"id": found}}), ""

    def sleep(self, seconds: float) -> None:
        self.slept += int(seconds)

    def _images(self, argv: list[str]) -> tuple[int, str, str]:
        if argv[2] == "ls":
            return 0, "sha256:8\nsha256:9\n", ""
        if argv[3:] == ["sha256:8", "sha256:9"]:
            return 0, json.dumps(self.others), ""
        assert argv[3:] == ["sha256:1", "sha256:2", "sha256:3"]
        return 0, json.dumps(self.docker), ""

    def _change(self, argv: list[str]) -> tuple[int, str, str]:
        if argv[:2] == ["crictl", "pull"]:
            if argv[2] not in self.registry:
                return 1, "", "not found"
            self.containerd[kept_as(argv[2])] = self.registry[argv[2]]
        elif argv[:5] == ["ctr", "--namespace", "k8s.io", "images", "tag"]:
            if argv[6] not in self.containerd:
                return 1, "", f"image {argv[6]}: not found"
            self.containerd[argv[7]] = self.containerd[argv[6]]
        elif argv[:2] == ["docker", "save"]:
            self.saved = argv[4:]
            Path(argv[3]).write_text("image")
        elif argv[:5] == ["ctr", "--namespace", "k8s.io", "images", "import"] and self.imports:
            self.containerd |= {kept_as(name): self._identity_of(name) for name in self.saved}
        else:
            return 1, "", "no space left on device"
        return 0, "", ""

    def _identity_of(self, name: str) -> str:
        images: list[dict[str, Any]] = [*self.docker, *self.others]
        found = [
            one["Id"] for one in images if name in (one["RepoTags"] or one["RepoDigests"] or ())
        ]
        assert len(found) == 1
        return str(found[0])


def moved(module: ModuleType, stores: Stores, folder: Path) -> Any:
    mover = module.Mover(stores, str(folder), "r:5000", stores.sleep)
    for identity, tags, digests in module.images_of_pods(stores):
        if mover.lacks(identity, tags or digests):
            mover.bring(identity, tags, digests)
    return mover


def test_an_image_comes_from_its_registry_and_one_made_by_hand_from_docker(
    module: ModuleType, tmp_path: Path
) -> None:
    stores = Stores()
    mover = moved(module, stores, tmp_path)
    assert (mover.pulled, mover.copied) == ([TAG, UNNAMED], [BY_HAND])
    assert stores.containerd == {
        TAG: "sha256:1",
        DIGEST: "sha256:1",
        kept_as(BY_HAND): "sha256:2",
        UNNAMED: "sha256:3",
    }
    assert list(tmp_path.iterdir()) == []
    again = moved(module, stores, tmp_path)
    assert (again.pulled, again.copied) == ([], [])


@pytest.mark.parametrize("served", [1, 2, 3])
def test_content_without_a_tag_comes_under_each_of_its_names(
    module: ModuleType, tmp_path: Path, served: int
) -> None:
    """As of the GPU Operator's operands, once their tags are those of a newer release."""
    stores = Stores()
    names = [UNNAMED, "r:5000/driver@sha256:f", "r:5000/toolkit@sha256:a"]
    stores.docker[2] = {"Id": "sha256:3", "RepoTags": [], "RepoDigests": names}
    stores.registry |= dict.fromkeys(names[:served], "sha256:3")
    mover = moved(module, stores, tmp_path)
    assert {name: stores.containerd.get(name) for name in names} == dict.fromkeys(names, "sha256:3")
    assert mover.pulled == [TAG, *names[:served]]


@pytest.mark.parametrize(
    ("there", "served", "then"),
    [
        ({kept_as(BY_HAND): "sha256:old"}, {}, {kept_as(BY_HAND): "sha256:2"}),
        ({UNNAMED: "sha256:old"}, {}, {UNNAMED: "sha256:3"}),
        ({TAG: "sha256:old"}, {}, {TAG: "sha256:1"}),
        # The registry has a newer one under this name, which a pod gets that starts anew.
        ({TAG: "sha256:new"}, {TAG: "sha256:new"}, {TAG: "sha256:new"}),
    ],
    ids=["by hand", "by digest", "the registry lacks the tag", "the registry has the tag"],
)
def test_other_content_under_the_same_name_is_not_moved_yet(
    module: ModuleType,
    tmp_path: Path,
    there: dict[str, str],
    served: dict[str, str],
    then: dict[str, str],
) -> None:
    stores = Stores()
    stores.containerd, stores.registry = dict(there), {**stores.registry, **served}
    mover = moved(module, stores, tmp_path)
    assert (mover.pulled, mover.copied) == ([TAG, UNNAMED], [BY_HAND])
    assert then.items() <= stores.containerd.items()


def test_an_image_of_dockers_hub_is_tagged_by_the_name_that_containerd_keeps(
    module: ModuleType, tmp_path: Path
) -> None:
    stores = Stores()
    stores.docker[1]["RepoDigests"] = [digest := "customer/agent@sha256:2"]
    stores.registry[digest] = "sha256:2"
    mover = moved(module, stores, tmp_path)
    assert (mover.pulled, mover.copied) == ([TAG, BY_HAND, UNNAMED], [])
    assert stores.containerd[f"docker.io/{BY_HAND}"] == "sha256:2"


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("nginx:1", "docker.io/library/nginx:1"),
        ("nginx@sha256:2", "docker.io/library/nginx@sha256:2"),
        ("rancher/flannel:1", "docker.io/rancher/flannel:1"),
        ("quay.io/a/b:1", "quay.io/a/b:1"),
        ("r:5000/etcd:1", "r:5000/etcd:1"),
        ("localhost/a:1", "localhost/a:1"),
    ],
)
def test_the_name_that_containerd_keeps(module: ModuleType, name: str, kept: str) -> None:
    assert module.full(name) == kept


@pytest.mark.parametrize("before", [{}, {kept_as(BY_HAND): "sha256:old"}], ids=["new", "other"])
def test_what_ctr_changed_may_be_shown_a_moment_later(
    module: ModuleType, tmp_path: Path, before: dict[str, str]
) -> None:
    stores = Stores()
    stores.containerd, stores.shown, stores.late = dict(before), before, 3
    assert moved(module, stores, tmp_path).copied == [BY_HAND]
    stores = Stores()
    stores.late = 1000
    with pytest.raises(module.MoveError, match="containerd does not show r:5000/etcd"):
        moved(module, stores, tmp_path)


def test_a_containerd_that_does_not_answer_is_no_containerd_without_the_image(
    module: ModuleType, tmp_path: Path
) -> None:
    """Else Docker's older content would be forced over what the registry has now."""
    stores = Stores()
    stores.containerd, stores.silent = {TAG: "sha256:new"}, True
    with pytest.raises(module.MoveError, match="context deadline exceeded"):
        moved(module, stores, tmp_path)
    assert stores.containerd == {TAG: "sha256:new"}


def test_docker_gives_every_image_where_the_registry_is_away(
    module: ModuleType, tmp_path: Path
) -> None:
    stores = Stores()
    stores.registry = {}
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


def others(module: ModuleType, stores: Stores, folder: Path, free: int) -> Any:
    mover = module.Mover(stores, str(folder), "r:5000")
    mover.bring_others(lambda: free)
    return mover


def test_other_content_under_a_name_that_no_pod_runs_is_kept_on_both_sides(
    module: ModuleType, tmp_path: Path
) -> None:
    stores = Stores()
    stores.containerd[kept_as("customer/tool:1")] = "sha256:theirs"
    mover = others(module, stores, tmp_path, 100 * GIB)
    assert mover.copied == ["customer/tool:2", "nginx:1"]
    assert mover.kept == ["customer/tool:1", "customer/large:1"]
    assert stores.containerd[kept_as("customer/tool:1")] == "sha256:theirs"


def test_images_that_no_pod_runs_are_copied_unless_the_registry_has_them(
    module: ModuleType, tmp_path: Path
) -> None:
    stores = Stores()
    mover = others(module, stores, tmp_path, 100 * GIB)
    assert mover.copied == ["customer/tool:1", "customer/tool:2", "nginx:1"]
    assert mover.kept == ["customer/large:1"]
    assert list(tmp_path.iterdir()) == []
    again = others(module, stores, tmp_path, 100 * GIB)
    assert (again.copied, again.kept) == ([], ["customer/large:1"])


@pytest.mark.parametrize(("free", "copied"), [(8 * GIB, 1), (6 * GIB, 0)])
def test_images_that_no_pod_runs_stay_in_docker_where_there_is_no_space(
    module: ModuleType, tmp_path: Path, free: int, copied: int
) -> None:
    mover = others(module, Stores(), tmp_path, free)
    assert len(mover.copied) == 2 * copied
    assert len(mover.copied) + len(mover.kept) == 4


def test_an_image_that_no_pod_runs_and_that_cannot_be_copied_fails_nothing(
    module: ModuleType, tmp_path: Path
) -> None:
    stores = Stores()
    stores.imports = False
    mover = others(module, stores, tmp_path, 100 * GIB)
    assert mover.copied == []
    assert len(mover.kept) == 4
    assert list(tmp_path.iterdir()) == []


def test_images_that_docker_does_not_list_fail_nothing(module: ModuleType, tmp_path: Path) -> None:
    mover = module.Mover(
        lambda argv, _seconds: (1, "", f"no such image: {argv}"), str(tmp_path), "r:5000"
    )
    mover.bring_others(lambda: 100 * GIB)
    assert mover.copied == []
    assert "no such image" in mover.kept[0]
