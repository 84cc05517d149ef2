"""The pods that the kubelet runs on containerd: listed and removed by its own interface."""

from __future__ import annotations

UNIT = "containerd.service"
# A folder for each container that runs, and for each pod that containerd knows.
TRACES = (
    "run/containerd/io.containerd.runtime.v2.task/k8s.io",
    "var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes",
)
STUCK = "look at it with: sudo crictl pods; restart containerd, or reboot the machine"


class ContainerdPods:
    """The sandboxes of pods; a pod's containers go with its sandbox.

    Args:
        root: the folder used as /.
        run: callable(argv) -> (rc, stdout, stderr).
        which: finds a program.
    """

    def __init__(self, root, run, which):
        self._root, self._run, self._which = root, run, which

    def found(self):
        """Return the identities of the sandboxes, running or not.

        Raises:
            OSError: there are traces of pods, and containerd does not list them.
        """
        traces = [name for name in TRACES if self._is_filled(name)]
        if not traces:
            return []
        _, active, _ = self._run(["systemctl", "is-active", UNIT])
        if active.strip() != "active" or not self._which("crictl"):
            raise OSError(
                "containerd does not run or has no crictl, but it has pods (/%s); start it, or "
                "reboot the machine" % traces[0]
            )
        rc, out, err = self._run(["crictl", "pods", "--quiet"])
        if rc != 0:
            raise OSError("containerd does not list its pods: %s; %s" % ((err or out), STUCK))
        return sorted(out.split())

    def remove(self):
        """Stop and remove every pod.

        Raises:
            OSError: some are still there.
        """
        there = self.found()
        said = ""
        for verb in ("stopp", "rmp"):
            rc, out, err = self._run(["crictl", verb, *there])
            said = said or ((err or out).strip() if rc != 0 else "")
        left = self.found()
        if left:
            raise OSError(
                "%d pods of containerd still exist (%s): %s; %s"
                % (len(left), left[0][:13], said or "crictl reported success", STUCK)
            )

    def _is_filled(self, name):
        folder = self._root / name
        return folder.is_dir() and any(folder.iterdir())
