"""Runs one playbook by ansible-runner; errors name the host and the task.

The run's files are in ``<site>/.appliance/runs/<run>/``: ``inventory.json`` (0600) and, per
playbook, a folder with Ansible's full output. A playbook ends with its command
(``play_processes``); long commands on the nodes continue as transient units (``node_job``).
"""

from __future__ import annotations

import hashlib
import logging
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from appliance.adapters.ansible.environment import LOCALE, run_playbook
from appliance.adapters.ansible.inventory_file import inventory_text
from appliance.adapters.ansible.missing_program import missing_program
from appliance.adapters.ansible.play_processes import end_leftovers, ending_with_us
from appliance.adapters.local.content import find_content_root, find_package_parent
from appliance.adapters.local.processes import search_path
from appliance.adapters.local.state_files import make_folder, replace_file
from appliance.adapters.ssh.call import last_line
from appliance.errors import Interrupted, PlaybookFailed

if TYPE_CHECKING:
    from appliance.model.plan.play import Play

_LOGGER = logging.getLogger(__name__)
OnTask = Callable[[str, str, bool | None], None]
# Limit for a failed task's message: those of our roles are shorter, a node may print anything.
_MOST_TOLD = 1000
_FAILURES = ("runner_on_failed", "runner_on_unreachable", "runner_item_on_failed")


class AnsiblePlaybooks:
    """Runs the playbooks of this product against one site.

    Args:
        site_directory: the inventory directory.
        vault_password_file: opens ``vault.yml``; None if Ansible's own settings do.
        playbooks: the folder of the playbooks and ``ansible.cfg``; None for this product's.
    """

    def __init__(
        self,
        site_directory: Path,
        vault_password_file: Path | None = None,
        playbooks: Path | None = None,
    ) -> None:
        self._site = site_directory.resolve()
        self._vault = vault_password_file
        self._playbooks = playbooks or find_content_root() / "playbooks"

    def play(self, play: Play, on_task: OnTask) -> None:
        """Run one playbook to its end; ``on_task(node, task, changed)`` receives its tasks.

        Raises:
            PlaybookFailed: a host failed; names host, task, file and line, and the role's message.
            Interrupted: the operator pressed Ctrl-C.
        """
        end_leftovers(self._site)
        directory = self._directory(play)
        inventory = self.write_inventory(play)
        log = directory / "ansible.log"
        events = PlayEvents(on_task)
        _LOGGER.debug("play: %s", self.command(play))
        try:
            with ending_with_us(str(self._site)) as marks:
                result = run_playbook(
                    {**self._environment(log), **marks},
                    private_data_dir=str(directory),
                    ident="events",
                    playbook=str(self._playbooks / f"{play.playbook}.yml"),
                    inventory=[str(self._site), str(inventory)],
                    limit=",".join(play.limit),
                    cmdline=self._options(),
                    event_handler=events,
                    # Without a callback, runner handles our signals until this process ends.
                    cancel_callback=lambda: False,
                    quiet=True,
                    settings={"idle_timeout": 0, "suppress_ansible_output": True},
                )
        except KeyboardInterrupt:
            raise Interrupted(
                f"interrupted while {play.playbook} was running on {', '.join(play.limit)}",
                hint="run the same command again: it resumes here",
                log_path=log,
            ) from None
        if result.rc != 0:
            raise events.failure(play, log, str(result.status))

    def command(self, play: Play) -> str:
        """The ansible-playbook command that repeats the run."""
        inventory = self._directory(play).parent / "inventory.json"
        words = [
            f"LC_ALL={LOCALE['LC_ALL']}",
            f"ANSIBLE_CONFIG={shlex.quote(str(self._playbooks / 'ansible.cfg'))}",
            f"ANSIBLE_SSH_CONTROL_PATH_DIR={shlex.quote(self._connections())}",
            shlex.quote(_program("ansible-playbook")),
            *("-i", shlex.quote(str(self._site)), "-i", shlex.quote(str(inventory))),
            *("--limit", shlex.quote(",".join(play.limit))),
            self._options(),
            shlex.quote(str(self._playbooks / f"{play.playbook}.yml")),
        ]
        return " ".join(word for word in words if word)

    def write_inventory(self, play: Play) -> Path:
        """Write the run's inventory (0600) and the command that repeats the run."""
        directory = self._directory(play)
        path = directory.parent / "inventory.json"
        replace_file(path, inventory_text(play.inventory))
        with (directory.parent / "commands.log").open("a", encoding="utf-8") as stream:
            stream.write(self.command(play) + "\n")
        return path

    def _directory(self, play: Play) -> Path:
        directory = self._site / ".appliance" / "runs" / play.run / play.playbook
        make_folder(directory)
        return directory

    def _options(self) -> str:
        return f"--vault-password-file {shlex.quote(str(self._vault))}" if self._vault else ""

    def _connections(self) -> str:
        """The folder of the site's SSH connections; sites may share node addresses.

        The path is short: the path of a socket has at most 108 bytes.
        """
        name = hashlib.sha256(str(self._site).encode()).hexdigest()[:10]
        return str(Path.home() / ".ansible" / "cp" / name)

    def _environment(self, log: Path) -> dict[str, str]:
        return {
            **LOCALE,
            "ANSIBLE_CONFIG": str(self._playbooks / "ansible.cfg"),
            # ansible-runner disables it by default, and any host key would be accepted.
            "ANSIBLE_HOST_KEY_CHECKING": "True",
            "ANSIBLE_SSH_CONTROL_PATH_DIR": self._connections(),
            "ANSIBLE_LOG_PATH": str(log),
            # Ansible loads plugins and collections from this folder, never from the site.
            "ANSIBLE_HOME": str(log.parent / "ansible"),
            "PYTHONPATH": str(find_package_parent()),
            # Empty is unset: our own plugins are compiled once, not by each play.
            "PYTHONDONTWRITEBYTECODE": "",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{search_path()}",
        }


def _program(name: str) -> str:
    """The program beside this Python, so that an inactive virtual environment works, else PATH."""
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.exists() else shutil.which(name) or name


class PlayEvents:
    """Turns Ansible's events into progress and failures.

    It returns True: only then does runner store the event files. Root on a node controls all text
    of a module.
    """

    def __init__(self, on_task: OnTask) -> None:
        self._on_task = on_task
        self._failures: dict[str, dict[str, Any]] = {}
        self._unreachable: set[str] = set()

    def __call__(self, event: Mapping[str, Any]) -> bool:
        """Process one event."""
        kind, data = event.get("event", ""), event.get("event_data", {})
        host, task = data.get("host", ""), data.get("task", "")
        if kind == "runner_on_start":
            self._on_task(host, task, None)
        elif kind == "runner_on_ok":
            result = data.get("res")
            self._on_task(host, task, isinstance(result, dict) and bool(result.get("changed")))
        elif kind in _FAILURES and not data.get("ignore_errors"):
            self._failures.setdefault(host, dict(data))
            if kind == "runner_on_unreachable":
                self._unreachable.add(host)
        return True

    def failure(self, play: Play, log: Path, status: str) -> PlaybookFailed:
        """The first host's failure as the error, the others' as its details."""
        if not self._failures:
            return PlaybookFailed(
                f"{play.playbook}: ansible-playbook ended as {status} without naming a host",
                hint=f"read the last lines of the log: tail {shlex.quote(str(log))}",
                log_path=log,
            )
        lines = [f"{host}: {_sentence(host, data)}" for host, data in self._failures.items()]
        first, data = next(iter(self._failures.items()))
        missing = missing_program(first, _result(data))
        remedy = missing.hint if missing else "fix the cause above"
        return PlaybookFailed(
            lines[0],
            task=f"{data.get('task', '-')} ({data.get('task_path', '-')})",
            hint=f"{remedy}; then run the same command again: it resumes here",
            details=lines[1:],
            log_path=log,
        )


def _result(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The result of a task, or of its first item that failed."""
    result = data.get("res", {})
    if not isinstance(result, dict):
        return {"msg": str(result)}
    items = result.get("results")
    items = items if isinstance(items, list) else []
    return next((item for item in items if isinstance(item, dict) and item.get("failed")), result)


def _sentence(host: str, data: Mapping[str, Any]) -> str:
    source = _result(data)
    if missing := missing_program(host, source):
        return missing.sentence
    message = _shortened(str(source.get("msg", "failed without a message")).strip())
    detail = last_line(str(source.get("stderr") or source.get("module_stderr") or ""))
    return f"{message} ({detail})" if detail not in message else message


def _shortened(message: str) -> str:
    """The beginning and the end of a message; at the end ``ssh`` prints the reason."""
    if len(message) <= _MOST_TOLD:
        return message
    return f"{message[: _MOST_TOLD // 2]} [...] {message[-_MOST_TOLD // 2 :]}"
