"""BMCs of labs without a process: what was started, and with which logins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from appliance.lab.bmcs import LabBmc, LabBmcsState
from appliance.model.node.bmc.report import Login

FINGERPRINT = "00" * 32


@dataclass
class FakeBmcs:
    """The programs of a machine that is not there; ``done`` has what was started and ended."""

    done: list[str] = field(default_factory=list)
    states: dict[str, LabBmcsState] = field(default_factory=dict)
    told: dict[str, Any] = field(default_factory=dict)

    def certificates(self, directory: Path, bmcs: Sequence[LabBmc]) -> Mapping[str, str]:
        assert directory.is_absolute()
        return {bmc.node: FINGERPRINT for bmc in bmcs}

    def start(
        self,
        lab: str,
        network: IPv4Network,
        directory: Path,
        bmcs: Sequence[LabBmc],
        logins: Mapping[str, Login],
    ) -> bool:
        assert all(bmc.address in network for bmc in bmcs)
        told = (directory, tuple(bmcs), dict(logins))
        before = self.states.get(lab)
        if before is not None and before.pid is not None and self.told.get(lab) == told:
            return False
        self.stop(lab)
        self.done.append(f"BMCs of {lab}")
        self.told[lab] = told
        self.states[lab] = LabBmcsState(lab, 4711, {bmc.node: str(bmc.address) for bmc in bmcs})
        return True

    def running(self, lab: str | None = None) -> tuple[LabBmcsState, ...]:
        return tuple(one for one in self.states.values() if lab in (None, one.lab))

    def stop(self, lab: str) -> bool:
        if self.states.pop(lab, None) is None:
            return False
        self.done.append(f"no BMCs of {lab}")
        return True

    def die(self, lab: str) -> None:
        """The process of a lab is gone, and its addresses stay."""
        self.states[lab] = replace(self.states[lab], pid=None)
