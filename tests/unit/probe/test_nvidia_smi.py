"""What the probe asks of nvidia-smi, against what a real one knows and says."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from appliance.probe.inspection.cards import SMI_FIELDS as INSPECTED
from appliance.probe.machine.hardware import SMI_FIELDS

RECORDED = Path(__file__).parents[2] / "data/nvidia_smi"
# Field of --query-gpu -> where -q -x has it.
PLACES = {
    "pci.bus_id": "pci/pci_bus_id",
    "uuid": "uuid",
    "ecc.errors.uncorrected.volatile.total": "ecc_errors/volatile",
}


def test_nvidia_smi_knows_each_field_that_the_probe_asks_for() -> None:
    known = (RECORDED / "fields-580.159.04.txt").read_text().split()
    assert set(SMI_FIELDS) <= set(known)
    assert set(INSPECTED) <= set(known)


@pytest.mark.parametrize("name", ["h200-idle.xml", "h200-load.xml"])
def test_each_field_has_a_place_in_what_nvidia_smi_says_of_a_gpu(name: str) -> None:
    recorded = ET.parse(RECORDED / name)  # noqa: S314 (our own)
    (gpu,) = recorded.getroot().findall("gpu")
    assert set(PLACES) == set(SMI_FIELDS)
    for place in PLACES.values():
        assert gpu.find(place) is not None, place
