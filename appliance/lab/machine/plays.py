"""The lab's playbooks, which run on this machine: no site, no vault."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import appliance
from appliance.adapters.ansible.environment import LOCALE, run_playbook
from appliance.adapters.ansible.inventory_file import inventory_text
from appliance.adapters.ansible.missing_program import missing_program
from appliance.adapters.ansible.play_processes import end_leftovers, ending_with_us
from appliance.adapters.local.content import find_content_root
from appliance.adapters.local.processes import search_path
from appliance.errors import LabError


class LocalPlays:
    """Runs lab_up and lab_down with ansible-runner."""

    def run(self, playbook: str, variables: dict[str, Any]) -> None:
        """Run one playbook to its end.

        Raises:
            LabError: the playbook failed; names the task and the reason.
        """
        failures: list[dict[str, Any]] = []

        def on_event(event: dict[str, Any]) -> bool:
            if event.get("event") in ("runner_on_failed", "runner_item_on_failed"):
                failures.append(event.get("event_data", {}))
            return True

        playbooks = find_content_root() / "playbooks"
        # A killed command leaves its playbook running: two of them on one lab would conflict.
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
            result = run_playbook(
                {**_environment(playbooks), **marks},
                private_data_dir=directory,
                playbook=str(playbooks / f"{playbook}.yml"),
                inventory=[str(inventory)],
                event_handler=on_event,
                # Without a callback, runner handles SIGINT and SIGTERM until this process ends.
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
                hint=f"{missing.hint if missing else 'fix the cause above'}; then run the same "
                "command again: it resumes here",
                details=() if failures else output,
            )

    @staticmethod
    def _recipe() -> dict[str, str]:
        """The folder of the node image's recipe, which is data of this package."""
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
