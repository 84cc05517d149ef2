"""What the tests of all scenarios share."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"
SHARED = Path(__file__).parent / "shared"


def apply(*options):
    """Apply the role of the scenario once more."""
    scenario = Path(os.environ["MOLECULE_SCENARIO_DIRECTORY"])
    own = scenario / "converge.yml"
    playbook = own if own.exists() else SHARED / "site_converge.yml"
    inventory = os.environ["MOLECULE_INVENTORY_FILE"]
    return subprocess.run(  # noqa: S603 - arguments of the tests' own
        [PLAYBOOK, "--inventory", inventory, *options, str(playbook)],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def converge_again():
    """Apply the role once more; returns how many tasks changed something, on all hosts."""

    def converge(*options):
        done = apply(*options)
        assert done.returncode == 0, done.stdout + done.stderr
        return sum(int(count) for count in re.findall(r"changed=(\d+)", done.stdout))

    return converge


@pytest.fixture
def refusal():
    """Apply the role once more, see it refuse without a change, and return its words."""

    def refuse():
        done = apply()
        assert done.returncode != 0, done.stdout
        assert set(re.findall(r"changed=(\d+)", done.stdout)) == {"0"}
        return " ".join((done.stdout + done.stderr).split())

    return refuse


@pytest.fixture
def drift(host, converge_again):
    """Inject drift: --check tells it, a run repairs it by that many tasks, then all is quiet.

    ``told``: how many tasks --check names, where several things drift at once.
    """

    def inject(commands, tasks, told=None):
        for command in commands:
            host.run_expect([0], command)
        found = converge_again("--check")
        assert found == told if told else found > 0, f"--check tells of {found}"
        assert converge_again() == tasks, "not repaired"
        assert converge_again() == 0, "never settles"

    return inject
