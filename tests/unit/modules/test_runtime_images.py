"""A node loses the images that are asked for by name and digest, where no container uses them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.modules.loading import load, load_utils

load_utils("appliance_node_images")
from ansible.module_utils import appliance_node_images  # noqa: E402

module: Any = load("runtime_images_removed", role="kubernetes_node")
REGISTRY = "registry.rack.example:5000"
OLD, NEW, OTHER = ("sha256:" + letter * 64 for letter in "abc")


class Programs:
    """Answers like docker or crictl, and writes down what removes something."""

    def __init__(self, answers: dict[str, str]) -> None:
        self.answers = answers
        self.removed: list[str] = []

    def __call__(self, words: list[str], seconds: float) -> tuple[int, str, str]:
        assert seconds > 0
        text = " ".join(words)
        if " rm " in text:
            self.removed.append(words[-1])
            return (1, "", "No such image") if "@" in words[-1] else (0, "", "")
        (answer,) = [said for begin, said in self.answers.items() if text.startswith(begin)]
        return 0, answer, ""


def row(name: str, digest: str, identity: str) -> str:
    repository, _, tag = name.rpartition(":")
    fields = {"Repository": repository, "Tag": tag, "Digest": digest, "ID": identity}
    return json.dumps(fields)


DOCKER = {
    "docker image ls": "\n".join(
        [
            row(f"{REGISTRY}/pause:3.5", OLD, "sha256:1"),
            row(f"{REGISTRY}/coredns:1.8", OLD, "sha256:2"),
            row(f"{REGISTRY}/pause:3.6", NEW, "sha256:3"),
            row("pause:3.5", OLD, "sha256:1"),
            row(f"{REGISTRY}/<none>:<none>", OLD, "sha256:4"),
        ]
    ),
    "docker image inspect": "sha256:1 700\nsha256:2 800\n",
    "docker ps": "c1\n",
    "docker inspect": "sha256:2\n",
}
CRI = {
    "crictl images": json.dumps(
        {
            "images": [
                {"id": "sha256:1", "size": "700", "repoTags": [f"{REGISTRY}/pause:3.5"],
                 "repoDigests": [f"{REGISTRY}/pause@{OLD}"]},
                {"id": "sha256:2", "size": "800", "repoTags": [f"{REGISTRY}/coredns:1.8"],
                 "repoDigests": [f"{REGISTRY}/coredns@{OLD}"]},
            ]
        }
    ),
    "crictl ps": json.dumps({"containers": [{"imageRef": "sha256:2", "image": {"image": "x"}}]}),
}  # fmt: skip
ASKED = {"pause:3.5": OLD, "coredns:1.8": OLD, "pause:3.6": OTHER}


@pytest.mark.parametrize(("name", "answers"), [("docker", DOCKER), ("containerd", CRI)])
def test_only_what_is_asked_with_its_digest_and_is_not_in_use_goes(
    monkeypatch: pytest.MonkeyPatch, name: str, answers: dict[str, str]
) -> None:
    programs = Programs(answers)
    monkeypatch.setattr(appliance_node_images, "run", programs)
    runtime = appliance_node_images.runtime_of(name)
    going = module.due(runtime, REGISTRY, ASKED)
    assert going == [(f"{REGISTRY}/pause:3.5", OLD)]
    runtime.remove(*going[0])
    assert programs.removed == [f"{REGISTRY}/pause:3.5", f"{REGISTRY}/pause@{OLD}"]
    assert module.due(runtime, "another.example:5000", ASKED) == []
    assert {entry["bytes"] for entry in runtime.images()} >= {700, 800}


def test_the_image_below_every_pod_of_containerd_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    configuration = tmp_path / "config.toml"
    configuration.write_text(f'[plugins]\n  sandbox_image = "{REGISTRY}/pause:3.5"\n')
    monkeypatch.setattr(appliance_node_images, "run", Programs(CRI))
    monkeypatch.setattr(appliance_node_images, "CONFIGURATION", configuration)
    runtime = appliance_node_images.runtime_of("containerd")
    assert f"{REGISTRY}/pause:3.5" in runtime.used()
    assert module.due(runtime, REGISTRY, ASKED) == []


def test_a_runtime_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appliance_node_images, "run", lambda *_, **__: (1, "", "no daemon"))
    with pytest.raises(appliance_node_images.ImagesError, match="no daemon"):
        module.due(appliance_node_images.Docker(), REGISTRY, ASKED)
