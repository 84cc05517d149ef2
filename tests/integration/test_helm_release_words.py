"""A release that fails says so in whole words, and its values stay untold."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

PLAYBOOKS = Path(__file__).parents[2] / "playbooks"
VALUES = {
    "runtime": "docker",
    "names": ["runai", "gpu-operator", 1],
    "deep": ["s3cret-word"],
}
SECRETS = {"initTenant": {"admin": "an0ther-word", "name": "docker"}}


def test_values_mask_no_words_of_the_message_and_are_not_told(tmp_path: Path) -> None:
    play = {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "vars": {"given": VALUES, "kept": SECRETS, "ansible_python_interpreter": sys.executable},
        "tasks": [
            {
                "name": "Fail",
                "helm_release": {
                    "name": "gpu-operator",
                    "namespace": "runai",
                    "chart": "/nowhere/docker-an0ther-word.tgz",
                    "values": "{{ given | to_json }}",
                    "secret_values": "{{ kept | to_json }}",
                },
            }
        ],
    }
    path = tmp_path / "play.yml"
    path.write_text(json.dumps([play]))
    done = subprocess.run(
        [Path(sys.executable).with_name("ansible-playbook"), "-i", "localhost,", "-vvv", path],
        env={**os.environ, "ANSIBLE_CONFIG": str(PLAYBOOKS / "ansible.cfg")},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 2, said
    assert "release gpu-operator: [Errno 2] No such file or directory" in said
    assert "/nowhere/docker-********.tgz" in said, "a text of the vault is masked by itself"
    assert "s3cret-word" not in said
    assert said.count("VALUE_SPECIFIED_IN_NO_LOG_PARAMETER") == 2, "each as a whole"
