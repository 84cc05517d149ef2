"""The stand-in of NVIDIA's container toolkit: what a new container gets, and when."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

LOCAL = Path(__file__).parents[2] / "appliance/lab/node/rootfs/usr/local"
SMI = "/usr/bin/nvidia-smi"


def started(tmp_path: Path, word: str, environment: list[str], *places: str) -> list[str]:
    """Start a container by the wrapper; return where its mounts are."""
    mounts = [{"destination": place} for place in places]
    specification = tmp_path / "config.json"
    document: dict[str, Any] = {"process": {"env": environment}, "mounts": mounts}
    specification.write_text(json.dumps(document, separators=(",", ":")))
    wrapper = (LOCAL / "sbin/runc").read_text().replace("/usr/local", str(LOCAL))
    given = str(specification if word == "--process" else tmp_path)
    done = subprocess.run(
        ["sh", "-c", wrapper, "runc", "--root", "/r", "create", word, given, "name"],
        env={**os.environ, "APPLIANCE_LAB_RUNC": "echo"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["--root", "/r", "create", word, given, "name"]
    return [mount["destination"] for mount in json.loads(specification.read_text())["mounts"]]


@pytest.mark.parametrize(
    ("environment", "there", "mounts"),
    [
        (["A=b", "NVIDIA_VISIBLE_DEVICES=GPU-1,GPU-2"], (), [SMI]),
        (["NVIDIA_VISIBLE_DEVICES=MIG-1"], ("/etc/hosts",), ["/etc/hosts", SMI]),
        # The stand-in of the device plug-in brings its own program.
        (["NVIDIA_VISIBLE_DEVICES=GPU-1"], (SMI,), [SMI]),
        # An image of CUDA asks for all: nobody gave it any.
        (["NVIDIA_VISIBLE_DEVICES=all"], (), []),
        ([], (), []),
    ],
)
def test_a_container_that_was_given_gpus_gets_the_program_once(
    tmp_path: Path, environment: list[str], there: tuple[str, ...], mounts: list[str]
) -> None:
    assert started(tmp_path, "--bundle", environment, *there) == mounts


def test_a_process_that_joins_a_container_gets_nothing(tmp_path: Path) -> None:
    assert started(tmp_path, "--process", ["NVIDIA_VISIBLE_DEVICES=GPU-1"]) == []


def test_nvidia_smi_lists_what_the_device_plugin_named_and_says_standin() -> None:
    program = LOCAL / "lib/appliance-lab/nvidia-smi"
    environment = {**os.environ, "NVIDIA_VISIBLE_DEVICES": "GPU-a,GPU-b"}
    words = ["sh", str(program), "-L"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "GPU 0: STANDIN GPU (UUID: GPU-a)",
        "GPU 1: STANDIN GPU (UUID: GPU-b)",
    ]
