"""STANDIN: NVIDIA's device plugin. Offers the GPUs that the lab's fact file lists to the kubelet.

A container that gets some sees a small ``nvidia-smi`` that lists exactly those. Each GPU is offered
in one way, as by the real one: whole, or as slices, by the configuration that its node's label
names.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
from cluster_api import ApiError, ClusterApi, say
from gpus import (
    Gpu,
    chosen,
    gpus_of,
    nvidia_smi,
    preferred,
    resource_of,
    slices,
    unhealthy,
    whole,
)
from plugin_api import PACKAGE, message

FOLDER = Path("/var/lib/kubelet/device-plugins")
STATE = Path("/var/lib/standin-gpus")
FACTS = Path("/etc/appliance-lab/facts/gpus.json")
KUBELET = FOLDER / "kubelet.sock"
SECONDS = 1.0
# Between two looks at the label of the node.
CONFIG_SECONDS = 5.0


class Offer:
    """One resource and its devices, counted once: the real one counts when it registers."""

    def __init__(self, resource: str, node: str, replicas: int) -> None:
        self.resource = resource
        self.socket = FOLDER / f"standin-{resource.rpartition('/')[2].replace('.', '-')}.sock"
        self._gpus = gpus_of(node, FACTS)
        self._replicas = replicas

    def gpus(self) -> list[Gpu]:
        """Return the GPUs that the node had when this offer began."""
        return list(self._gpus)

    def devices(self) -> list[tuple[str, str]]:
        """Return each device's name and health."""
        ill = unhealthy(STATE)
        return [
            (device, "Unhealthy" if gpu.index in ill else "Healthy")
            for gpu in self.gpus()
            for device in (slices(gpu, self._replicas) if self._replicas else [gpu.uuid])
        ]


class Service:
    """The kubelet's questions about one offer."""

    def __init__(self, offer: Offer) -> None:
        self._offer = offer
        self.ended = threading.Event()

    def options(self, _request: Any, _context: Any) -> Any:
        """Say that allocations are advised."""
        return message("DevicePluginOptions")(get_preferred_allocation_available=True)

    def list_and_watch(self, _request: Any, context: Any) -> Iterator[Any]:
        """Tell the devices, and again whenever they change."""
        told: list[tuple[str, str]] | None = None
        while context.is_active() and not self.ended.is_set():
            found = self._offer.devices()
            if found != told:
                told = found
                say(f"{self._offer.resource}: {sum(h == 'Healthy' for _, h in found)} healthy")
                devices = [message("Device")(ID=name, health=health) for name, health in found]
                yield message("ListAndWatchResponse")(devices=devices)
            self.ended.wait(SECONDS)

    def prefer(self, request: Any, _context: Any) -> Any:
        """Advise which devices to take."""
        answer = message("PreferredAllocationResponse")()
        for one in request.container_requests:
            available, required = one.available_deviceIDs, one.must_include_deviceIDs
            chosen = preferred(available, required, one.allocation_size, self._offer.gpus())
            answer.container_responses.add(deviceIDs=chosen)
        return answer

    def allocate(self, request: Any, context: Any) -> Any:
        """Give devices to containers; slices of two GPUs are refused, as one job has one GPU."""
        answer = message("AllocateResponse")()
        for one in request.container_requests:
            names = list(dict.fromkeys(whole(device) for device in one.devicesIDs))
            if len(names) > 1 and len(names) < len(one.devicesIDs):
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "slices of more than one GPU")
            mine = [gpu for gpu in self._offer.gpus() if gpu.uuid in names]
            response = answer.container_responses.add()
            response.envs["NVIDIA_VISIBLE_DEVICES"] = ",".join(names)
            response.envs["NVIDIA_STANDIN"] = "true"
            response.mounts.add(
                container_path="/usr/bin/nvidia-smi", host_path=str(_smi(mine)), read_only=True
            )
            say(f"gave {', '.join(names)}")
        return answer

    def prepare(self, _request: Any, _context: Any) -> Any:
        """Nothing is to be prepared."""
        return message("PreStartContainerResponse")()


def _smi(gpus: Sequence[Gpu]) -> Path:
    """Write the program for these GPUs; the same GPUs have the same file."""
    text = nvidia_smi(gpus)
    path = STATE / "smi" / hashlib.sha256(text.encode()).hexdigest()[:16] / "nvidia-smi"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(".new")
        new.write_text(text, encoding="utf-8")
        new.chmod(0o755)
        new.replace(path)
    return path


def _handler(service: Service) -> Any:
    def unary(function: Callable[..., Any], asked: str) -> Any:
        return grpc.unary_unary_rpc_method_handler(
            function, message(asked).FromString, lambda answer: answer.SerializeToString()
        )

    return grpc.method_handlers_generic_handler(
        f"{PACKAGE}.DevicePlugin",
        {
            "GetDevicePluginOptions": unary(service.options, "Empty"),
            "GetPreferredAllocation": unary(service.prefer, "PreferredAllocationRequest"),
            "Allocate": unary(service.allocate, "AllocateRequest"),
            "PreStartContainer": unary(service.prepare, "PreStartContainerRequest"),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                service.list_and_watch,
                message("Empty").FromString,
                lambda answer: answer.SerializeToString(),
            ),
        },
    )


def serve(offer: Offer) -> tuple[Any, Service]:
    """Start to answer for one offer, and register it with the kubelet."""
    service = Service(offer)
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=8))
    server.add_generic_rpc_handlers((_handler(service),))
    offer.socket.unlink(missing_ok=True)
    server.add_insecure_port(f"unix://{offer.socket}")
    server.start()
    with grpc.insecure_channel(f"unix://{KUBELET}") as channel:
        register = channel.unary_unary(
            f"/{PACKAGE}.Registration/Register",
            lambda request: request.SerializeToString(),
            message("Empty").FromString,
        )
        register(
            message("RegisterRequest")(
                version="v1beta1",
                endpoint=offer.socket.name,
                resource_name=offer.resource,
                options=message("DevicePluginOptions")(get_preferred_allocation_available=True),
            ),
            timeout=5,
        )
    say(f"registered {offer.resource} with the kubelet")
    return server, service


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


class Configured:
    """The resource and the replicas that the node's label asks for; kept while the API is away."""

    def __init__(self, node: str) -> None:
        self._path = f"/api/v1/nodes/{node}"
        self._folder = Path(os.environ.get("CONFIG_DIR", "/nowhere"))
        self._default = os.environ.get("CONFIG_DEFAULT", "")
        self._asked: float | None = None
        self._known = ("nvidia.com/gpu", 0)

    def now(self) -> tuple[str, int]:
        """Return them, asking the API for the label now and then."""
        if self._asked is None or time.monotonic() - self._asked > CONFIG_SECONDS:
            try:
                labels = ClusterApi().get(self._path)["metadata"].get("labels") or {}
            except (ApiError, OSError) as error:
                say(f"the label of the node is not known: {error}")
            else:
                self._known = resource_of(chosen(labels, self._folder, self._default))
                self._asked = time.monotonic()
        return self._known


def main() -> None:
    """Serve, and register again whenever the kubelet is another one: it wipes the folder."""
    node = os.environ["NODE_NAME"]
    configured = Configured(node)
    running: tuple[Any, Service] | None = None
    known: tuple[int, str, int] | None = None
    offer: Offer | None = None
    while True:
        inode, (resource, replicas) = _inode(KUBELET), configured.now()
        wanted = None if inode is None else (inode, resource, replicas)
        lost = offer is not None and not offer.socket.exists()
        if wanted is not None and (wanted != known or lost or running is None):
            if running is not None:
                running[1].ended.set()
                running[0].stop(0)
            offer = Offer(resource, node, replicas)
            try:
                running, known = serve(offer), wanted
            except grpc.RpcError as error:
                say(f"the kubelet does not answer yet: {error.code()}")
                running = None
        time.sleep(SECONDS)


if __name__ == "__main__":
    main()
