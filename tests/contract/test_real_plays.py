"""A real ``ansible-playbook`` evaluates nothing from outside, and loads nothing unchecked."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.adapters.ansible.playbooks import AnsiblePlaybooks
from appliance.adapters.kubernetes.connection.client import credentials_of
from appliance.adapters.site.files import check_site
from appliance.model.plan.play import Play
from appliance.model.site.vault_ref import CA_FILE, CA_KEY, VaultRef
from tests import samples
from tests.contract import tree
from tests.contract.test_templates import ADMIN_CONF, PAYLOAD, PLAY, changed, desired_state, written
from tests.prerequisites import require
from tests.site_cases import KNOWN, copy_of_good


def test_a_real_play_evaluates_nothing_of_it(tmp_path: Path) -> None:
    require("ssh")
    desired = desired_state()
    inventory = written(desired, {n.name: samples.bare(n) for n in desired.site.nodes})["all"]
    for name, variables in inventory["hosts"].items():
        told = {"kubeadm_worker_action": "join"} if name.startswith("w") else {}
        variables.update({**changed(variables, lambda _: PAYLOAD), **told})
        variables["ansible_host"] = "127.0.0.1"
    names = sorted(n for n in inventory["vars"] if not n.startswith("ansible_"))
    for name in set(names) - {"kubeadm_worker_leader", "kubeadm_worker_endpoint"}:
        inventory["vars"][name] = changed(inventory["vars"][name], lambda _: PAYLOAD)
    inventory["vars"] |= {"hostile": PAYLOAD, "names": names, "told_secret": PAYLOAD}
    inventory["vars"]["secret"] = VaultRef("vault_hostile")
    inventory["vars"]["secret_values"] = VaultRef("vault_hostile_values", "{}")
    inventory["vars"]["absent"] = VaultRef("vault_absent", "''")
    inventory["vars"]["absent_values"] = VaultRef("vault_absent_values", "{}")
    role = tree.ROOT / "roles" / "kubeadm_control_plane"
    inventory["vars"]["control_plane_vars"] = str(role / "vars" / "main.yml")
    admin = base64.b64encode(json.dumps(ADMIN_CONF).encode()).decode()
    inventory["vars"]["__kubeadm_control_plane_kubeconfig"] = {"content": admin}
    site = tmp_path / "site"
    (site / "group_vars" / "all").mkdir(parents=True)
    workers: dict[str, Any] = {"cpu_workers": {"hosts": {"w1": {}, "w2": {}}}}
    (site / "hosts.yml").write_text(json.dumps({"all": {"children": workers}}))
    secrets = {"vault_site_ca_certificate": "CA", "vault_site_ca_key": "KEY"}
    secrets["vault_registry_password"] = "a" * 24
    lines = [f"{key}: {value}" for key, value in secrets.items()]
    lines += [f"vault_runai_tls_key: x\nvault_hostile: !unsafe {json.dumps(PAYLOAD)}"]
    lines += [f"vault_hostile_values: {{users: [{{password: !unsafe {json.dumps(PAYLOAD)}}}]}}"]
    (site / "group_vars" / "all" / "vault.yml").write_text("\n".join(lines) + "\n")
    # A plugin that came with the site: nothing loads it.
    evil = site / ".appliance" / "ansible" / "plugins" / "callback" / "evil.py"
    evil.parent.mkdir(parents=True)
    evil.write_text("open('PWNED', 'w').close()\n")
    (tmp_path / "x.j2").write_text(
        "{{ through_vars }}\n{% for f in texts %}{{ f.content }}\n{% endfor %}{{ said.stdout }}\n"
    )
    (tmp_path / "y.j2").write_text("- {{ {'path': hostile} | to_json }}\n")
    (tmp_path / "play.yml").write_text(PLAY)
    plays = AnsiblePlaybooks(site)
    play = Play("r1", "workers", ("w1",), {"all": inventory})
    path = plays.write_inventory(play)
    program = Path(sys.executable).with_name("ansible-playbook")
    own = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
    done = subprocess.run(
        [program, "-vvv", "-i", site, "-i", path, "--limit", "w1", tmp_path / "play.yml",
         tree.ROOT / "playbooks" / "workers.yml"],
        cwd=tmp_path,
        env={**own, **plays._environment(tmp_path / "log")},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    # The arguments of the role were judged, and only then was the node looked for.
    assert "Validating arguments against arg spec 'main'" in done.stdout, done.stdout + done.stderr
    assert "UNREACHABLE" in done.stdout, done.stdout + done.stderr
    assert (tmp_path / "out-w1").read_text().splitlines() == [PAYLOAD] * 3
    kept = yaml.safe_load((tmp_path / "kubeconfig").read_text())
    assert credentials_of(json.dumps(kept)) == credentials_of(json.dumps(ADMIN_CONF))
    assert "PWNED" not in str(kept)
    # What a module is given is in no file, on this machine either.
    assert "PUT " not in done.stdout
    assert "EXEC " in done.stdout
    assert list(tmp_path.rglob("PWNED")) == []


@pytest.mark.parametrize("shebang", ['#!/usr/bin/env -S sh -c "touch PWNED; echo {}" ', ""])
def test_a_site_file_is_never_run(tmp_path: Path, shebang: str) -> None:
    """By Ansible itself, should a file get past ``site check``."""
    site = tmp_path / "site"
    site.mkdir()
    script = site / "hosts.yml"

    script.write_text(f"{shebang}\nall: {{hosts: {{w1: {{ansible_local: {{}}}}}}}}\n")
    script.chmod(0o755)
    listed = _listed(site, tmp_path)
    assert list(tmp_path.rglob("PWNED")) == []
    assert json.loads(listed)["_meta"]["hostvars"] == {"w1": {"ansible_local": {}}}


def test_nothing_of_a_task_on_the_control_host_is_in_a_file_for_a_while() -> None:
    """These modules are given all by a pipe; copy, template and the like put a file first."""
    by_pipe = {"certificate_sign", "rsync_push", "text_files"}
    local = [
        task for role in tree.roles() for task in role.tasks
        if task.keys.get("delegate_to") == "localhost"
    ]  # fmt: skip
    assert len(local) >= 4
    assert [task.where for task in local if task.module not in by_pipe] == []


EVIL = "all: {hosts: {evil: {evil: 1}}, vars: {evil: 1}}\n"
# What may lie about in a site's folder, and where Ansible might look for variables or plugins.
LITTER = (
    "evil.yml", "evil", "evil.json", "hosts.ini", "ansible.cfg", "inventory/hosts.yml", "hosts/x",
    "runai-evil.yaml", "runai-evil.yml", "group_vars/all/runai-evil.yaml", "runai-evil.yaml/x.yml",
    "evil.md", "evil.orig", "evil.bak/hosts.yml", "evil.pem/hosts.yml", "known_hosts.d/hosts.yml",
    "allowed_signers/x", "hosts.yml~", ".evil.yml", ".evil/hosts.yml",
    "group_vars/all.yml", "group_vars/all.yaml", "group_vars/gpu_workers.json", "group_vars/evil",
    "group_vars/gpu_workers/x.yml", "group_vars/all/evil.yml", "group_vars/all/evil",
    "group_vars/all/evil.md", "group_vars/all/deep/evil.yml", "group_vars/all/deep.md/evil.yml",
    "group_vars/all/.evil.yml", "group_vars/all/evil.yml~", "group_vars/ungrouped.yml",
    "host_vars/gpu1", "host_vars/gpu1.json", "host_vars/gpu1.yaml", "host_vars/gpu1.pem",
    "host_vars/localhost.yml", "host_vars/gpu2/x.yml", "host_vars/gpu1.md/x.yml",
    "vars_plugins/evil.py", "library/evil.py", "filter_plugins/evil.py", "roles/x/tasks/main.yml",
    "callback_plugins/evil.py", "collections/x", "action_plugins/evil.py", "inventory_plugins/x.py",
)  # fmt: skip


def test_nothing_in_a_sites_folder_is_loaded_that_was_not_checked(tmp_path: Path) -> None:
    """What the check lets pass, Ansible does not load; all else is refused, file by file."""
    site = copy_of_good(tmp_path / "site")
    kept = []
    for number, name in enumerate(LITTER):
        one = copy_of_good(tmp_path / str(number))
        if (one / name).parent.is_file():
            (one / name).parent.unlink()
        (one / name).parent.mkdir(parents=True, exist_ok=True)
        (one / name).write_text("open('PWNED', 'w')\n" if name.endswith(".py") else EVIL)
        if not check_site(one, known=KNOWN).faults:
            kept.append(name)
            shutil.copytree(one, site, dirs_exist_ok=True)
    assert {"evil.md", "runai-evil.yaml", "runai-evil.yml"} <= set(kept)
    (site / "group_vars/all/vault.yml").write_text("vault_one: x\n")
    listed = _listed(site, tmp_path)
    assert "evil" not in listed.replace(str(tmp_path), ""), kept
    assert '"gpu1"' in listed
    assert list(tmp_path.rglob("PWNED")) == []


def test_the_key_of_the_sites_ca_is_a_variable_of_nodes_in_a_run_alone(tmp_path: Path) -> None:
    site = tmp_path / "site"
    (site / CA_FILE).parent.mkdir(parents=True)
    (site / CA_FILE).write_text("vault_site_ca_key: KEY\n")
    workers: dict[str, Any] = {"cpu_workers": {"hosts": {"w1": {}, "w2": {}}}}
    (site / "hosts.yml").write_text(json.dumps({"all": {"children": workers}}))
    assert "KEY" not in _listed(site, tmp_path)
    desired = desired_state()
    inventory = written(desired, {n.name: samples.bare(n) for n in desired.site.nodes})
    run = AnsiblePlaybooks(site).write_inventory(Play("r1", "host", ("w1",), inventory))
    held = json.loads(_listed(site, tmp_path, run))["_meta"]["hostvars"]["w1"]
    assert held["vault_site_ca_key"] == "KEY"
    assert held["site_certificate_ca_key"] == CA_KEY.template


def _listed(site: Path, cwd: Path, *more: Path) -> str:
    program = Path(sys.executable).with_name("ansible-inventory")
    config = {"ANSIBLE_CONFIG": str(tree.ROOT / "playbooks" / "ansible.cfg")}
    return subprocess.run(
        [program, "-i", site, *(word for one in more for word in ("-i", one)), "--list"],
        cwd=cwd, env={**os.environ, **config, "LC_ALL": "C.UTF-8"},
        capture_output=True, text=True, timeout=60, check=True,
    ).stdout  # fmt: skip
