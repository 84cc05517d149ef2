"""STANDIN: the kubelet's device plugin API v1beta1 as messages, described instead of generated.

Field names and numbers are those of k8s.io/kubelet v0.23.5, in its
pkg/apis/deviceplugin/v1beta1/api.proto.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "v1beta1"
_STRING, _BOOL, _INT32, _INT64, _MESSAGE = 9, 8, 5, 3, 11
_ONE, _MANY = 1, 3
# Message -> (field, number, type, many, message type).
_MESSAGES: dict[str, list[tuple[str, int, int, int, str]]] = {
    "Empty": [],
    "DevicePluginOptions": [
        ("pre_start_required", 1, _BOOL, _ONE, ""),
        ("get_preferred_allocation_available", 2, _BOOL, _ONE, ""),
    ],
    "RegisterRequest": [
        ("version", 1, _STRING, _ONE, ""),
        ("endpoint", 2, _STRING, _ONE, ""),
        ("resource_name", 3, _STRING, _ONE, ""),
        ("options", 4, _MESSAGE, _ONE, "DevicePluginOptions"),
    ],
    "NUMANode": [("ID", 1, _INT64, _ONE, "")],
    "TopologyInfo": [("nodes", 1, _MESSAGE, _MANY, "NUMANode")],
    "Device": [
        ("ID", 1, _STRING, _ONE, ""),
        ("health", 2, _STRING, _ONE, ""),
        ("topology", 3, _MESSAGE, _ONE, "TopologyInfo"),
    ],
    "ListAndWatchResponse": [("devices", 1, _MESSAGE, _MANY, "Device")],
    "ContainerPreferredAllocationRequest": [
        ("available_deviceIDs", 1, _STRING, _MANY, ""),
        ("must_include_deviceIDs", 2, _STRING, _MANY, ""),
        ("allocation_size", 3, _INT32, _ONE, ""),
    ],
    "PreferredAllocationRequest": [
        ("container_requests", 1, _MESSAGE, _MANY, "ContainerPreferredAllocationRequest")
    ],
    "ContainerPreferredAllocationResponse": [("deviceIDs", 1, _STRING, _MANY, "")],
    "PreferredAllocationResponse": [
        ("container_responses", 1, _MESSAGE, _MANY, "ContainerPreferredAllocationResponse")
    ],
    "ContainerAllocateRequest": [("devicesIDs", 1, _STRING, _MANY, "")],
    "AllocateRequest": [("container_requests", 1, _MESSAGE, _MANY, "ContainerAllocateRequest")],
    "Mount": [
        ("container_path", 1, _STRING, _ONE, ""),
        ("host_path", 2, _STRING, _ONE, ""),
        ("read_only", 3, _BOOL, _ONE, ""),
    ],
    "ContainerAllocateResponse": [
        ("envs", 1, _MESSAGE, _MANY, "ContainerAllocateResponse.EnvsEntry"),
        ("mounts", 2, _MESSAGE, _MANY, "Mount"),
    ],
    "AllocateResponse": [("container_responses", 1, _MESSAGE, _MANY, "ContainerAllocateResponse")],
    "PreStartContainerRequest": [("devicesIDs", 1, _STRING, _MANY, "")],
    "PreStartContainerResponse": [],
}


def _described() -> Any:
    file = descriptor_pb2.FileDescriptorProto(
        name="deviceplugin_standin.proto", package=PACKAGE, syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for title, number, kind, many, other in fields:
            field = message.field.add(name=title, number=number, type=kind, label=many)
            if other:
                field.type_name = f".{PACKAGE}.{other}"
        if name == "ContainerAllocateResponse":
            entry = message.nested_type.add(name="EnvsEntry")
            entry.options.map_entry = True
            entry.field.add(name="key", number=1, type=_STRING, label=_ONE)
            entry.field.add(name="value", number=2, type=_STRING, label=_ONE)
    return file


_POOL = descriptor_pool.DescriptorPool()
_POOL.Add(_described())


def message(name: str) -> Any:
    """Return the class of a message."""
    descriptor = _POOL.FindMessageTypeByName(f"{PACKAGE}.{name}")
    # The first is how newer runtimes do it, the second how Debian 12's does.
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(_POOL).GetPrototype(descriptor)
