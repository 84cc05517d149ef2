"""Tests by pods, and what they showed, written on the Node objects.

A result is an annotation of the node (decision 2), so that the next run sees which nodes were
tested. What must not be here: the tests themselves (``gpu.py``, ``network.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from appliance.adapters.kubernetes.connection.client import NotReadable, call
from appliance.adapters.kubernetes.connection.connection import ApiConnection
from appliance.adapters.kubernetes.pod_tests.gpu import run_gpu_test
from appliance.adapters.kubernetes.pod_tests.network import run_network_test
from appliance.errors import ClusterError
from appliance.model.state.cluster.cluster import GPU_ANNOTATION, NETWORK_ANNOTATION
from appliance.model.state.observed import GpuTestResult, PodView


class PodTests(ApiConnection):
    """Tests the network and the GPUs of a site's nodes."""

    def run_gpu_test(
        self, nodes: Sequence[str], image: str, meanwhile: Callable[[], None]
    ) -> GpuTestResult:
        """Let a pod on each node list the GPUs that it was given; ``meanwhile`` they start.

        Raises:
            ClusterError: the API refused what the test needs.
        """
        result = run_gpu_test(self, nodes, image, meanwhile)
        well = [name for name in nodes if not result.faults_of(name)]
        self._annotate(well, GPU_ANNOTATION, _now())
        self._annotate([name for name in nodes if name not in well], GPU_ANNOTATION, None)
        return result

    def run_network_test(
        self, nodes: Sequence[str], image: str, *, dns: bool = True
    ) -> tuple[str, ...]:
        """Test the pod network with real pods; one sentence per fault.

        That it passed is written on the Node objects (decision 2), or taken from them when it
        was not, so that the next run tests it again. Without ``dns`` an earlier pass stands.

        Raises:
            ClusterError: the API refused what the test needs.
        """
        faults = run_network_test(self, nodes, image, dns=dns).faults
        if dns or faults:
            self._annotate(nodes, NETWORK_ANNOTATION, None if faults else _now())
        return faults

    def look_from_pods(self, nodes: Sequence[str], image: str, names: Sequence[str]) -> PodView:
        """The same test, and how pods resolve ``names``; nothing is written on Node objects.

        Raises:
            ClusterError: the API refused what the test needs.
        """
        return run_network_test(self, nodes, image, names=names)

    def _annotate(self, nodes: Sequence[str], key: str, value: str | None) -> None:
        from kubernetes.client import CoreV1Api

        if not nodes:
            return
        with self.any_client() as client:
            core = CoreV1Api(client)
            for name in nodes:
                try:
                    call(core.patch_node, name, {"metadata": {"annotations": {key: value}}})
                except NotReadable as error:
                    raise ClusterError(
                        f"{name}: the annotation {key} could not be written: {error}",
                        hint="run the same command again: it resumes here",
                    ) from error


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
