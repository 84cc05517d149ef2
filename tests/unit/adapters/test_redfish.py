"""What a BMC says of its machine, as far as it says anything. The real thing: tests/standins."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from appliance.adapters.hardware.redfish import judged
from appliance.model.node.bmc.report import BmcReport

UUID = "4c4c4544-0042-3510-8051-b4c04f4d3732"


@pytest.mark.parametrize(
    ("serial", "uuid", "expected"),
    [
        ("SN-w1", UUID, BmcReport("SN-w1", powered_off=True, uuid=UUID)),
        (" SN-w1 ", None, BmcReport("SN-w1", powered_off=True)),
        ("System Serial Number", UUID.upper(), BmcReport(powered_off=True, uuid=UUID.upper())),
        ("0123456789", "03000200-0400-0500-0006-000700080009", BmcReport(powered_off=True)),
        (None, "", BmcReport(powered_off=True)),
        (7, ["a"], BmcReport(powered_off=True)),
        ("a\nb", "x" * 65, BmcReport(powered_off=True)),
    ],
)
def test_a_firmware_placeholder_is_neither_a_serial_nor_a_uuid(
    serial: Any, uuid: Any, expected: BmcReport
) -> None:
    system = SimpleNamespace(serial_number=serial, uuid=uuid, power_state="Off")
    assert judged(system, "Off") == expected
