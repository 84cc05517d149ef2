"""One setting that kubeadm would silently drop."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Loss:
    """One setting that would be lost.

    Attributes:
        name: by which it is acknowledged, e.g. ``kubelet.maxPods``.
        nodes: where it is so; empty: the cluster as a whole.
        was: the value that runs.
        will: the value that kubeadm renders.
        carried: site.yml has the same value, and the upgrade brings it back.
        key_in_site: the key of site.yml that would carry it; empty: none can.
    """

    name: str
    nodes: tuple[str, ...]
    was: str
    will: str
    carried: bool = False
    key_in_site: str = ""

    def sentence(self) -> str:
        """The difference in one line."""
        where = f" on {', '.join(self.nodes)}" if self.nodes else ""
        return f"{self.name}{where} is {self.was}; kubeadm renders {self.will}"
