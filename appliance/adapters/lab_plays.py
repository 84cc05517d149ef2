"""Playbooks that run on this machine itself, for the lab: no site, no vault."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import appliance
from appliance.adapters.ansible import LOCALE
from appliance.adapters.content import find_content_root
from appliance.adapters.inventory_file import inventory_text
from appliance.adapters.missing_program import missing_program
from appliance.adapters.play_processes import end_leftovers, ending_with_us
from appliance.adapters.processes import search_path
from appliance.errors import LabError


class LocalPlays:
    """Runs lab_up and lab_down with ansible-runner."""

    def run(self, playbook: str, variables: dict[str, Any]) -> None:
        """Run one playbook to its end.

        Raises:
            LabError: it failed; says which task, and why.
        """
        import ansible_runner

        failures: list[dict[str, Any]] = []

        def on_event(event: dict[str, Any]) -> bool:
            if event.get("event") in ("runner_on_failed", "runner_item_on_failed"):
                failures.append(event.get("event_data", {}))
            return True

        playbooks = find_content_root() / "playbooks"
        # A killed command leaves its play running: two plays on one lab would undo each other.
        mark = Path("lab", variables["lab_node_lab"])
        end_leftovers(mark)
        # Nothing secret: names, addresses and a public key.
        host = {"ansible_connection": "local", **self._recipe(), **variables}
        with (
            TemporaryDirectory(prefix="appliance-lab-") as directory,
            ending_with_us(str(mark)) as marks,
        ):
            inventory = Path(directory, "lab.json")
            inventory.write_text(inventory_text({"all": {"hosts": {"localhost": host}}}))
            result = ansible_runner.run(
                private_data_dir=directory,
                playbook=str(playbooks / f"{playbook}.yml"),
                inventory=[str(inventory)],
                envvars={**_environment(playbooks), **marks},
                event_handler=on_event,
                # Without one, runner takes over SIGINT and SIGTERM for the rest of this process.
                cancel_callback=lambda: False,
                quiet=True,
                settings={"idle_timeout": 0},
            )
            log = Path(result.config.artifact_dir) / "stdout"
            output = log.read_text(errors="replace").splitlines()[-15:] if log.exists() else []
        if result.rc != 0:
            data = failures[0] if failures else {}
            message = str(data.get("res", {}).get("msg") or f"{playbook} ended as {result.status}")
            missing = missing_program("localhost", {"msg": message}, here=True)
            raise LabError(
                missing.sentence if missing else message.strip(),
                task=f"{data.get('task', '-')} ({data.get('task_path', '-')})",
                hint=f"{missing.hint if missing else 'mend it'}; then run the same command again: "
                "it goes on from here",
                details=() if failures else output,
            )

    @staticmethod
    def _recipe() -> dict[str, str]:
        """The node's recipe is data of this package, wherever that is installed."""
        return {"lab_node_recipe_dir": str(Path(appliance.__file__).parent / "lab" / "node")}


def _environment(playbooks: Path) -> dict[str, str]:
    package_parent = str(Path(appliance.__file__).parents[1])
    beside = str(Path(sys.executable).parent)
    return {
        **LOCALE,
        "ANSIBLE_CONFIG": str(playbooks / "ansible.cfg"),
        "PYTHONPATH": os.pathsep.join(
            filter(None, (package_parent, os.environ.get("PYTHONPATH", "")))
        ),
        "PATH": f"{beside}{os.pathsep}{search_path()}",
    }
