"""A machine with an NVIDIA GPU: what the product reads of it, and what the stand-ins promise.

``pytest -m gpu tests/real_gpu`` needs the driver. The operands' tests also need the programs that
``tests/integration/bundle/test_device_plugin.py`` builds, in the folder of ``APPLIANCE_OPERANDS``.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from appliance.adapters.kubernetes.pod_tests.gpu import LISTED
from appliance.model.state.cluster.gpu_labels import WHOLE, read_gpu_labels
from appliance.probe.machine.hardware import gpus
from appliance.probe.source import Machine, Request, Source
from tests.integration.bundle.device_plugin import Stack
from tests.nvml_answers import Library, codes, values

DRIVER = Path("/proc/driver/nvidia/version")
ANSWERS = Path(__file__).parents[1] / "data/nvml/nvidia-h200-580.159.04.json"
OPERANDS = os.environ.get("APPLIANCE_OPERANDS", "")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not DRIVER.exists(), reason="no NVIDIA driver is loaded on this machine"),
]
needs_operands = pytest.mark.skipif(not OPERANDS, reason="APPLIANCE_OPERANDS names no folder")


def listed() -> list[str]:
    done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True)
    found = [LISTED.match(line) for line in done.stdout.splitlines()]
    assert None not in found, done.stdout
    return [match[1] for match in found if match]


def library() -> str:
    folders = [Path(f) for f in os.environ.get("LD_LIBRARY_PATH", "").split(":") if f]
    beside = [folder / "libnvidia-ml.so.1" for folder in folders]
    return next((str(path) for path in beside if path.exists()), "libnvidia-ml.so.1")


def test_the_probe_sees_each_gpu_with_uuid_errors_driver_and_link() -> None:
    found = gpus(Source(Machine(Path("/"), None, Request()), "gpus"))
    assert [gpu["uuid"] for gpu in found] == listed()
    for gpu in found:
        assert gpu["driver"] == "nvidia"
        assert gpu["ecc_uncorrected"] is None or gpu["ecc_uncorrected"] >= 0
        assert 0 < gpu["link_width"] <= gpu["max_link_width"]


def test_the_library_answers_as_the_recorded_one() -> None:
    recorded = json.loads(ANSWERS.read_text())
    assert codes(Library(library())) == recorded["codes"]
    assert values(Library(library())) == recorded["values"]


@needs_operands
def test_nvidias_device_plugin_offers_each_gpu_to_a_kubelet(tmp_path: Path) -> None:
    folder = Path(OPERANDS)
    stack = Stack(folder / "nvidia-device-plugin", Path(library()), folder / "kubelet")
    with stack.run(tmp_path) as pair:
        assert pair.hears(lambda line: "registered" in line)["registered"] == WHOLE
        offered = pair.hears(lambda line: "resource" in line)
        assert (sorted(offered["healthy"]), offered["ill"]) == (sorted(listed()), [])
        given = pair.asks(WHOLE, 1)
        assert given["envs"]["NVIDIA_VISIBLE_DEVICES"] == given["devices"][0]


@needs_operands
@pytest.mark.parametrize("renamed", [False, True])
def test_labels_of_gpu_feature_discovery_are_understood(tmp_path: Path, renamed: bool) -> None:
    told, config = tmp_path / "labels", tmp_path / "config.yaml"
    slicing = {
        "renameByDefault": renamed,
        "resources": [{"name": WHOLE, "replicas": 4}],
    }
    config.write_text(json.dumps({"version": "v1", "sharing": {"timeSlicing": slicing}}))
    subprocess.run(
        [Path(OPERANDS) / "gpu-feature-discovery", "--oneshot", "--output-file", told,
         "--config-file", config],
        check=True, capture_output=True,
    )  # fmt: skip
    labels = read_gpu_labels(dict(line.split("=", 1) for line in told.read_text().splitlines()))
    assert labels.faults == ()
    assert (labels.gpus.count, labels.gpus.replicas) == (len(listed()), 4)
    assert labels.gpus.renamed is renamed
