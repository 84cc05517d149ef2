"""What is wrong with the options of a new site: each fault names its option, not a file's line.

The files of the site are never written when they have a fault, so their lines help nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from appliance.model.site import addresses
from appliance.model.site.files.diagnostics import SiteFault, did_you_mean
from appliance.model.site.files.new import NewSite
from appliance.model.site.groups import (
    CONTROL_PLANE,
    CPU_WORKERS,
    GPU_WORKERS,
    SERVICES,
    SYSTEM_NODES,
)

# Group -> its option, and the attribute of a new site.
_GROUPS: Final = {
    CONTROL_PLANE: ("--control-plane", "control_plane"),
    GPU_WORKERS: ("--worker", "gpu_workers"),
    CPU_WORKERS: ("--cpu-worker", "cpu_workers"),
    SYSTEM_NODES: ("--system-node", "system_nodes"),
    SERVICES: ("--services", "services"),
}
# Key of site.yml -> the option it comes from.
_KEYS: Final = {
    "site_name": "--name",
    "appliance_release": "--release",
    "operating_system": "--os",
    "domain": "--domain",
    "registry": "--domain",
    "artifacts": "--domain",
    "dns_servers": "--dns",
    "ntp_servers": "--ntp",
    "control_plane_endpoint": "--virtual-address",
    "user": "--user",
    "private_key": "--private-key",
}
_HINTS: Final = {
    "--release": "to see the releases: appliance site schema",
    "--os": "to see the operating systems: appliance site schema",
    "--hardware": "to see the models: appliance hardware list",
}
_KEY: Final = re.compile(r" *(?:# )?([a-z_]+):")
_PLACE: Final = re.compile(r"^[a-z_.]+(\[[0-9]+\])?: ")
_NAME: Final = "write lower-case letters, digits and hyphens, at most 63, without the domain"


@dataclass(frozen=True)
class NewSiteFaults:
    """The faults of the options of a new site."""

    new: NewSite

    @cached_property
    def sound(self) -> NewSite:
        """The same site with a placeholder for each bad name, so that one fault is said once."""
        changed: dict[str, Any] = {
            attribute: {
                self._placeholders.get(name, name): address
                for name, address in getattr(self.new, attribute).items()
            }
            for _, attribute in _GROUPS.values()
        }
        hardware = {
            self._placeholders.get(name, name): model
            for name, model in self.new.hardware.items()
            if name in self._names
        }
        return replace(self.new, **changed, hardware=hardware)

    def of_options(self) -> Iterator[str]:
        """Faults that show in the options themselves."""
        for flag, attribute in _GROUPS.values():
            for name, address in getattr(self.new, attribute).items():
                if name in self._placeholders:
                    problem = f"{name!r} is not a node name by RFC 1123; {_NAME}"
                    yield f"{flag} {name}={address}: {problem}"
        for name, model in self.new.hardware.items():
            if name not in self._names:
                near = did_you_mean(name, self._names)
                yield f"--hardware {name}={model}: no such node; {near}"
        count = len(self.new.control_plane)
        if count == 0:
            yield (
                "--control-plane: no node is in the group control_plane; name 1 or 3 of them: "
                "--control-plane NAME=ADDRESS/PREFIX"
            )
        if count == 3 and self.new.virtual_address is None:
            yield (
                "--control-plane: 3 control-plane nodes need a load balancer for the endpoint; "
                "add --virtual-address ADDRESS, a free address in their LAN"
            )

    def of_files(self, faults: Sequence[SiteFault], texts: Mapping[str, str]) -> Iterator[str]:
        """The faults of the files, each with the option that it comes from.

        Args:
            faults: of the files of :attr:`sound`; their file is relative to the site.
            texts: the text of each file.
        """
        domain = False
        for fault in faults:
            line = texts.get(fault.file, "").splitlines()[fault.line - 1 : fault.line]
            option, key = self._option(fault, "".join(line), texts)
            if not self.new.control_plane and fault.file == "hosts.yml" and not key:
                continue
            if key == "control_plane_endpoint" and "need a load balancer" in fault.problem:
                continue
            if option == f"--domain {self.new.domain}":
                if domain:
                    continue
                domain = True
            problem = _PLACE.sub("", fault.problem)
            yield self._typed(f"{option}: {problem}; {fault.remedy}")

    def hint(self, faults: Sequence[str]) -> str:
        """What to do about these faults."""
        options = list(dict.fromkeys(re.split(r"[ :]", fault, maxsplit=1)[0] for fault in faults))
        more = [f"; {_HINTS[option]}" for option in options if option in _HINTS]
        return f"correct {', '.join(options)}, then run the same command again{''.join(more)}"

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(
            name for _, attribute in _GROUPS.values() for name in getattr(self.new, attribute)
        )

    @cached_property
    def _placeholders(self) -> Mapping[str, str]:
        bad = sorted(name for name in self._names if not addresses.is_label(name))
        return {name: f"badly-named-{number}" for number, name in enumerate(bad)}

    def _typed(self, text: str) -> str:
        for name, placeholder in self._placeholders.items():
            text = text.replace(placeholder, name)
        return text

    def _option(self, fault: SiteFault, line: str, texts: Mapping[str, str]) -> tuple[str, str]:
        """The option of a fault with the value that was typed, and the key or node of its line."""
        found = _KEY.match(line)
        key = found.group(1) if found else ""
        if fault.file.startswith("host_vars/"):
            node = fault.file.removeprefix("host_vars/").removesuffix(".yml")
            if key == "hardware":
                return f"--hardware {node}={self.sound.hardware.get(node, '')}", key
            return self._node(node), key
        if fault.file == "hosts.yml":
            name = line.strip().partition(":")[0]
            if name in _GROUPS:
                return _GROUPS[name][0], ""
            return self._node(name), name
        above = texts.get(fault.file, "").splitlines()[: fault.line]
        top = next((one for one in reversed(above) if re.match(r"[a-z_]+:", one)), "")
        top = top.partition(":")[0]
        if top == "control_plane_endpoint" and key == "name":
            top = "domain"
        option = _KEYS.get(key) or _KEYS.get(top) or "the options"
        values = {
            "--release": self.new.release,
            "--os": self.new.operating_system,
            "--domain": self.new.domain,
        }
        return f"{option} {values[option]}" if option in values else option, top

    def _node(self, name: str) -> str:
        for flag, attribute in _GROUPS.values():
            nodes: Mapping[str, str] = getattr(self.sound, attribute)
            if name in nodes:
                return f"{flag} {name}={nodes[name]}"
        return "--control-plane"
