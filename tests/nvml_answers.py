"""What a library with NVML's interface answers to the calls that NVIDIA's operands make.

One program asks a driver's own library and the lab's stand-in, so that both can be compared.
Declarations: nvml.h of go-nvml v0.12 (``nvmlPciInfo_t``, ``nvmlReturn_t``).
"""

from __future__ import annotations

import ctypes
import json
import sys
from ctypes import byref, c_char, c_int, c_uint, c_ulonglong, c_void_p
from pathlib import Path
from typing import Any

# Of nvmlReturn_t.
SUCCESS, NOT_SUPPORTED = 0, 3
_UNKNOWN = b"GPU-00000000-0000-0000-0000-000000000000"
_XID_EVENTS = 8
_PROFILES = 5


class _Pci(ctypes.Structure):
    _fields_ = (
        ("legacy", c_char * 16),
        ("domain", c_uint),
        ("bus", c_uint),
        ("device", c_uint),
        ("identity", c_uint),
        ("subsystem", c_uint),
        ("bus_id", c_char * 32),
    )


class Library:
    """A library, as a program that loads it sees it."""

    def __init__(self, path: Path | str) -> None:
        self._calls = ctypes.CDLL(str(path))

    def call(self, name: str, *arguments: Any) -> int:
        """The code that a function returns."""
        return int(getattr(self._calls, name)(*arguments))


def codes(library: Library) -> dict[str, int]:
    """Situation -> code of nvmlReturn_t, for GPU 0 without MIG; the library ends shut down."""
    call, number, gpu, other = library.call, c_uint(), c_void_p(), c_void_p()
    told = {
        "count before init": call("nvmlDeviceGetCount_v2", byref(number)),
        "shutdown before init": call("nvmlShutdown"),
        "init": call("nvmlInit_v2"),
        "count": call("nvmlDeviceGetCount_v2", byref(number)),
        "handle": call("nvmlDeviceGetHandleByIndex_v2", 0, byref(gpu)),
        "handle of an index that is not there": call(
            "nvmlDeviceGetHandleByIndex_v2", 99, byref(other)
        ),
        "handle of an unknown UUID": call("nvmlDeviceGetHandleByUUID", _UNKNOWN, byref(other)),
        "UUID into a short buffer": call(
            "nvmlDeviceGetUUID", gpu, ctypes.create_string_buffer(4), 4
        ),
        "UUID into no buffer": call("nvmlDeviceGetUUID", gpu, None, 0),
    }
    for name in ("UUID", "Name", "Serial"):
        told[name] = call(f"nvmlDeviceGet{name}", gpu, ctypes.create_string_buffer(96), 96)
    for name in ("Index", "MinorNumber", "Brand", "Architecture", "PersistenceMode", "PowerUsage"):
        told[name] = call(f"nvmlDeviceGet{name}", gpu, byref(c_uint()))
    told["MemoryInfo"] = call("nvmlDeviceGetMemoryInfo", gpu, (c_ulonglong * 3)())
    told["PciInfo"] = call("nvmlDeviceGetPciInfo_v3", gpu, byref(_Pci()))
    told["CudaComputeCapability"] = call(
        "nvmlDeviceGetCudaComputeCapability", gpu, byref(c_int()), byref(c_int())
    )
    return told | _without_mig(library, gpu) | _events(library, gpu) | {"end": call("nvmlShutdown")}


def _without_mig(library: Library, gpu: c_void_p) -> dict[str, int]:
    call, other = library.call, c_void_p()
    told = {
        "MIG mode": call("nvmlDeviceGetMigMode", gpu, byref(c_uint()), byref(c_uint())),
        "MIG devices at most": call("nvmlDeviceGetMaxMigDeviceCount", gpu, byref(c_uint())),
        "whether it is a MIG device": call("nvmlDeviceIsMigDeviceHandle", gpu, byref(c_uint())),
        "GPU instance": call("nvmlDeviceGetGpuInstanceId", gpu, byref(c_uint())),
        "compute instance": call("nvmlDeviceGetComputeInstanceId", gpu, byref(c_uint())),
        "MIG device 0": call("nvmlDeviceGetMigDeviceHandleByIndex", gpu, 0, byref(other)),
        "parent": call("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", gpu, byref(other)),
        "attributes": call("nvmlDeviceGetAttributes_v2", gpu, ctypes.create_string_buffer(4096)),
        "GPU instance 1": call("nvmlDeviceGetGpuInstanceById", gpu, 1, byref(other)),
    }
    for profile in range(_PROFILES):
        told[f"profile {profile}"] = call(
            "nvmlDeviceGetGpuInstanceProfileInfo", gpu, profile, (c_uint * 32)()
        )
    return told


def _events(library: Library, gpu: c_void_p) -> dict[str, int]:
    call, waiter = library.call, c_void_p()
    return {
        "event types": call("nvmlDeviceGetSupportedEventTypes", gpu, byref(c_ulonglong())),
        "event set": call("nvmlEventSetCreate", byref(waiter)),
        "events of XIDs": call("nvmlDeviceRegisterEvents", gpu, c_ulonglong(_XID_EVENTS), waiter),
        "no event": call("nvmlEventSetWait_v2", waiter, ctypes.create_string_buffer(64), 0),
        "event set freed": call("nvmlEventSetFree", waiter),
    }


def values(library: Library) -> dict[str, int]:
    """What GPU 0 without MIG says of itself that a program counts with."""
    call, gpu, most, pci = library.call, c_void_p(), c_uint(99), _Pci()
    assert call("nvmlInit_v2") == SUCCESS
    assert call("nvmlDeviceGetHandleByIndex_v2", 0, byref(gpu)) == SUCCESS
    assert call("nvmlDeviceGetMaxMigDeviceCount", gpu, byref(most)) == SUCCESS
    assert call("nvmlDeviceGetPciInfo_v3", gpu, byref(pci)) == SUCCESS
    assert call("nvmlShutdown") == SUCCESS
    return {"MIG devices at most": most.value, "PCI vendor": pci.identity & 0xFFFF}


if __name__ == "__main__":
    asked = Library(sys.argv[1] if sys.argv[1:] else "libnvidia-ml.so.1")
    sys.stdout.write(json.dumps({"codes": codes(asked), "values": values(asked)}, indent=1) + "\n")
