"""One setting that kubeadm would silently drop."""

from __future__ import annotations

from dataclasses import dataclass

from appliance.model.support.forms import marked
from appliance.model.upgrade.handmade.kubelet_units import of_unit
from appliance.model.upgrade.handmade.told import told_name, told_value


@dataclass(frozen=True)
class Loss:
    """One setting that would be lost; its values may be secret, its sentence and label are not.

    Attributes:
        name: component and key, e.g. ``kubelet.maxPods``.
        nodes: where it is so; empty: the cluster as a whole.
        was: the value that runs.
        will: the value that kubeadm renders, or that this tool writes.
        carried: site.yml has the same value, and the upgrade brings it back.
        key_in_site: the key of site.yml that would carry it; empty: none can.
        is_value: its key is no option but the word after one that takes a secret.
    """

    name: str
    nodes: tuple[str, ...]
    was: str
    will: str
    carried: bool = False
    key_in_site: str = ""
    is_value: bool = False

    @property
    def label(self) -> str:
        """The name by which people see it and acknowledge it, without secrets."""
        if self.is_value:
            return f"{self.name.partition('.')[0]}.{marked('value')}"
        return told_name(self.name)

    def sentence(self) -> str:
        """The difference in one line, without secrets."""
        where = f" on {', '.join(self.nodes)}" if self.nodes else ""
        was, will = (told_value(self.name, text) for text in (self.was, self.will))
        return f"{self.label}{where} is {was}; {writer(self.name)} {will}"


def writer(name: str) -> str:
    """Who writes the other value of a setting, as the words before it."""
    return "this tool writes" if of_unit(name) else "kubeadm renders"
