"""What nodes, bundles, sites and secrets say is text to Ansible, never a template.

First in the inventory that is written, for every leaf of what comes from outside; then once by a
real ``ansible-playbook``, which would leave a file behind if it evaluated a single one.
"""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.adapters.ansible.inventory_file import MARK, inventory_text
from appliance.adapters.site.files import check_site
from appliance.errors import ApplianceError
from appliance.model.bundle.manifest import BundleManifest
from appliance.model.plan.inventory import run_inventory
from appliance.model.site.vault_ref import VaultRef
from appliance.model.state.desired import Desired
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.observed import Observed
from appliance.model.state.plan import Choice
from tests import samples
from tests.site_cases import KNOWN, copy_of_good
from tests.unit.probe.recorded import DATA, look
from tests.vendor_bundles import judged

PAYLOAD = "{{ lookup('ansible.builtin.pipe', 'touch PWNED') }}"
SITE: dict[str, Any] = {
    "control_plane_endpoint": {
        "name": "api.rack.test",
        "port": 8443,
        "balancer": "keepalived",
        "virtual_address": "198.18.7.9",
    },
    "nfs": {"server": "cp1", "path": "/srv/runai"},
    "gpu": {},
    "runai": {"vendor_bundle": "runai.tar", "certificate": "backend.crt"},
    "ssh": {"port": 1},
}
CHOICE = Choice("cp1", {"cp1": "init"}, joining=("w1", "w2"))
RECORDED = sorted(path.name for path in DATA.iterdir() if (path / "root").is_dir())


def desired_state() -> Desired:
    """A site with everything that a site may have."""
    found = samples.desired(samples.site(2, 2, **SITE))
    return replace(
        found, vendor_bundle=judged("2.7.14"), backend_certificate="PEM", issuer_ca="PEM of a CA"
    )


def written(desired: Desired, documents: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    seen = {name: NodeFacts(document) for name, document in documents.items()}
    observed = Observed(seen, samples.cluster(desired))
    return run_inventory(desired, observed, CHOICE, bundle_directory="/bundle")


def leaves(value: object, where: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Every text in plain data, and where it lies."""
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves(inner, (*where, key))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from leaves(inner, (*where, index))


def changed(value: Any, change: Callable[[str], Any]) -> Any:
    """A copy of plain data with every text changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: changed(inner, change) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [changed(inner, change) for inner in value]
    return value


def with_leaf(data: Any, where: tuple[Any, ...], text: str) -> Any:
    found = copy.deepcopy(data)
    inside = found
    for part in where[:-1]:
        inside = inside[part]
    inside[where[-1]] = text
    return found


def templates(text: str) -> set[str]:
    """What Ansible takes for a template in an inventory: texts without a mark."""
    return {
        leaf
        for where, leaf in leaves(json.loads(text))
        if where[-1] != MARK and ("{" in leaf or "#jinja2" in leaf)
    }


def ours(value: object) -> Iterator[str]:
    if isinstance(value, VaultRef):
        yield value.template
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from ours(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from ours(inner)


def assert_only_ours(inventory: Mapping[str, Any]) -> None:
    text = inventory_text(inventory)
    assert templates(text) <= set(ours(inventory))
    bare = [where for where, _ in leaves(json.loads(text)) if where[-1] != MARK]
    assert all("hosts" in where or "vars" in where for where in bare)


def test_the_sample_reaches_every_kind_of_variable() -> None:
    inventory = written(
        desired_state(), {n.name: samples.bare(n) for n in desired_state().site.nodes}
    )
    assert set(ours(inventory)) >= {"{{ vault_site_ca_key }}", "{{ vault_runai_tls_key }}"}
    text = inventory_text(inventory)
    for known in ("SN-w1", "eth0", "docker.io", "gpu-operator", "prepare_installation"):
        assert known in text, known
    assert templates(text) == set(ours(inventory))


@pytest.mark.parametrize("machine", RECORDED)
def test_no_leaf_of_a_probe_document_is_a_template(machine: str) -> None:
    desired = desired_state()
    document = look(DATA / machine / "root", DATA / machine / "outputs")
    plain = {node.name: samples.bare(node) for node in desired.site.nodes}
    hostile = changed({**document, "runai": {"record": "x"}}, lambda _: PAYLOAD)
    for node in desired.site.nodes:
        own = copy.deepcopy(hostile)
        # So that the hostile NIC is the one that is chosen.
        own["nics"] = [{"name": PAYLOAD, "addresses": [str(node.address)]}]
        assert_only_ours(written(desired, {**plain, node.name: own}))


def test_no_leaf_of_the_manifest_on_the_services_node_is_a_template() -> None:
    desired = desired_state()
    assert desired.manifest is not None
    data = desired.manifest.as_json()
    documents = {node.name: samples.bare(node) for node in desired.site.nodes}
    tried = 0
    for where, _ in leaves(data):
        tried += 1
        try:
            read = BundleManifest.parse(with_leaf(data, where, PAYLOAD))
            inventory = written(replace(desired, manifest=read), documents)
            assert_only_ours(inventory)
        except (ApplianceError, KeyError):
            continue
    assert tried > 40


@pytest.mark.parametrize("part", ["images", "packages", "package_roots"])
def test_no_name_in_the_manifest_is_a_template(part: str) -> None:
    desired = desired_state()
    assert desired.manifest is not None
    data = desired.manifest.as_json()
    data["packages"][PAYLOAD] = "1.0"
    data["package_roots"]["runtime"] = [PAYLOAD]
    if part == "images":
        data["images"] = {f"flannel:{PAYLOAD}": "sha256:" + "0" * 64}
        del data["packages"][PAYLOAD]
        data["package_roots"] = {}
    with pytest.raises(ApplianceError):
        inventory_text(written(replace(desired, manifest=BundleManifest.parse(data)), {}))


SITE_FILES = ("hosts.yml", "group_vars/all/site.yml", "host_vars/gpu1.yml")


@pytest.mark.parametrize("file", SITE_FILES)
def test_no_field_of_a_site_is_a_template(tmp_path: Path, file: str) -> None:
    site = copy_of_good(tmp_path / "site")
    path = site / file
    data = yaml.safe_load(path.read_text())
    assert check_site(site, known=KNOWN).faults == ()
    unseen = []
    for where, _ in [*leaves(data), *((where, "") for where in _keys(data))]:
        path.write_text(yaml.safe_dump(with_leaf(data, where, PAYLOAD), width=10_000))
        faults = check_site(site, known=KNOWN).faults
        if not any("Jinja" in fault.problem for fault in faults):
            unseen.append(where)
    for where in _keys(data):
        path.write_text(yaml.safe_dump(with_leaf(data, (*where[:-1], PAYLOAD), "x"), width=10_000))
        if not any("Jinja" in fault.problem for fault in check_site(site, known=KNOWN).faults):
            unseen.append((*where[:-1], PAYLOAD))
    assert unseen == []


def _keys(value: object, where: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield (*where, key)
            yield from _keys(inner, (*where, key))


PEM = base64.b64encode(b"PEM").decode()
CLUSTER = {"server": "https://api:6443", "certificate-authority-data": PEM, "proxy-url": "PWNED"}
USER = {
    "client-certificate-data": PEM,
    "client-key-data": PEM,
    "exec": {"apiVersion": "v1", "command": "touch", "args": ["PWNED"]},
}
# What a control-plane node may hand over in the place of kubeadm's own.
ADMIN_CONF = {
    "apiVersion": "v1", "kind": "Config", "current-context": "x",
    "clusters": [{"name": "y", "cluster": CLUSTER}],
    "contexts": [{"name": "x", "context": {"cluster": "y", "user": "z"}}],
    "users": [{"name": "z", "user": USER}],
}  # fmt: skip

PLAY = """
- name: What roles do with a value
  hosts: all
  gather_facts: false
  connection: local
  vars:
    ansible_become: false
    ansible_python_interpreter: "{{ ansible_playbook_python }}"
    through_vars: "{{ hostile }}"
  tasks:
    - name: Copy it
      ansible.builtin.set_fact:
        copied: "{{ through_vars }}"
        whole: "{{ lookup('ansible.builtin.vars', *names) | to_json }}"
        texts: "{{ [{'path': '/x', 'content': through_vars}] + [] }}"
    - name: Have a module say it
      ansible.builtin.command:
        argv: [echo, "{{ copied }}"]
      register: said
      changed_when: false
    - name: Turn it around as roles do
      ansible.builtin.set_fact:
        read_back: "{{ lookup('ansible.builtin.template', 'y.j2') | from_yaml }}"
        merged: "{{ {'a': {'b': hostile}} | combine({'a': {'c': copied}}, recursive=true) }}"
        listed: "{{ {'k': hostile} | dict2items(key_name='path', value_name='content') }}"
        extracted: "{{ ansible_play_hosts | map('extract', hostvars, 'hostile') | list }}"
        decoded: "{{ hostile | b64encode | b64decode }}"
        parsed: "{{ ([hostile] | to_json | from_json) + ([hostile] | to_nice_yaml | from_yaml) }}"
    - name: Ask for what came of it
      ansible.builtin.assert:
        that: item == hostile
      loop: >-
        {{ [read_back[0].path, merged.a.b, merged.a.c, listed[0].content, extracted[0], decoded,
            parsed[0], parsed[1]] }}
    - name: Ask for it
      ansible.builtin.assert:
        that:
          - said.stdout == through_vars
          - copied | length > 0
          - texts[0].content in [hostile]
          - secret in [told_secret]
          - (secret_values | to_json | from_json).users[0].password == hostile
          - (secret_values | to_json if secret_values else omit) is string
          - absent == '' and absent_values == {}
        fail_msg: "{{ inventory_hostname }}: {{ said.stdout }} {{ through_vars }}"
    - name: Take it for granted
      ansible.builtin.command: echo
      changed_when: false
      when: not copied
    - name: Know what a role makes of an admin.conf
      ansible.builtin.include_vars: "{{ control_plane_vars }}"
    - name: Write it
      text_files:
        files:
          - path: "{{ playbook_dir }}/kubeconfig"
            content: "{{ __kubeadm_control_plane_kept_kubeconfig }}"
          - path: "{{ playbook_dir }}/out-{{ inventory_hostname }}"
            content: "{{ lookup('ansible.builtin.template', 'x.j2') }}"
            mode: "0600"
"""
