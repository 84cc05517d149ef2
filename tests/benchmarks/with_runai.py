"""What Run:ai adds to the benchmark: its steps over a plain script, and a large vendor bundle."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import yaml

from appliance.adapters.site.files import load_site
from appliance.adapters.site.vault import KEPT, AnsibleVault
from appliance.cli.app import Application
from appliance.cli.commands.lab.group import GPUS_OF_RUNAI
from appliance.lab.site.site import RUNAI_VERSION, vendor_bundle
from appliance.model.bundle.release.runai_versions import LINES
from appliance.model.components.gpu.operator import operator_values
from appliance.model.site.groups import GPU_WORKERS, SYSTEM_NODES
from tests.benchmarks.labs import Lab, Result, appliance, node_cpu, steps_of
from tests.benchmarks.measured import MIB, basics, measure, median

# The floor installs the charts as they come, with the vendor's own first password.
FIRST_PASSWORD = LINES[(2, 7)].first_password
HERE = Path(__file__).resolve().parent
STEPS = ("storage", "gpu", "runai", "node_roles", "access")
LARGE = 20_000_000_000
# STANDIN of the receiving disk: what is zero takes none of it. Everything else of rsync is itself.
SPARSE_RSYNC = """#!/bin/sh
[ "$1" = --server ] && shift && set -- --server --sparse "$@"
exec /usr/bin/rsync "$@"
"""


def ready_cluster(lab: Lab) -> tuple[Path, list[str]]:
    """A lab of which the next steps are those of Run:ai; its site, and the command that goes on."""
    directory, _ = lab.up("--bare", "--with", "runai")
    settings = directory / "group_vars/all/site.yml"
    found = yaml.safe_load(settings.read_text())
    found["runai"]["access"] = {"enabled": True}
    settings.write_text(yaml.safe_dump(found))
    words = ("--site", str(directory), "--bundle", str(lab.bundle), "--yes")
    measure(appliance("install", *words, "--until", "workers"))
    # It is read once, and remembered: by the floor's author, too.
    measure(appliance("runai", "inspect", str(known_bundle(directory))))
    return directory, appliance("install", *words)


def floor(lab: Lab) -> Result:
    """From a Ready cluster to the same end, by a shell script."""
    directory, _ = ready_cluster(lab)
    site, result = load_site(directory), Result()
    environment = _environment(directory, lab.bundle)
    with node_cpu(site, result):
        done = measure([str(HERE / "floor" / "runai.sh")], environment=environment)
    lines = [line.partition(" ") for line in done.output.splitlines()]
    return result | basics(done) | {"done_after": {what: float(at) for at, _, what in lines}}


def install(lab: Lab) -> Result:
    """The same by the product; then what has nothing to do any more."""
    directory, command = ready_cluster(lab)
    site, result = load_site(directory), Result()
    before = steps_of(directory)
    with node_cpu(site, result):
        done = measure(command, whole=True)
    result |= basics(done)
    result["control_process_mib"] = round(done.peak_bytes / MIB, 1)
    took = steps_of(directory)
    result["steps"] = {name: took[name] for name in took if name not in before or name in STEPS}
    again = [measure(command) for _ in range(3)]
    result["second_run_seconds"] = median(one.seconds for one in again)
    return result | registry_again(directory, command) | streamed(directory, command)


def registry_again(directory: Path, command: list[str]) -> Result:
    """Step ``registry`` when nothing is new: as a command, and its play by itself."""
    alone = [measure([*command, "--only", "registry"]) for _ in range(3)]
    *_, line = (
        line
        for path in sorted((directory / ".appliance" / "runs").glob("*/commands.log"))
        for line in path.read_text().splitlines()
        if line.endswith("/registry.yml")
    )
    play = [measure(["sh", "-c", line]) for _ in range(3)]
    return {
        "registry_again_seconds": median(one.seconds for one in alone),
        "registry_play_seconds": median(one.seconds for one in play),
        "registry_play_changed": sum(map(int, re.findall(r"changed=(\d+)", play[-1].output))),
    }


def known_bundle(directory: Path) -> Path:
    """The vendor bundle of the lab's site."""
    return directory / ".appliance" / vendor_bundle(RUNAI_VERSION)


def streamed(directory: Path, command: list[str], size: int = LARGE) -> Result:
    """A vendor bundle of 20 GB goes to its node: read, streamed, compared, unpacked, prepared."""
    known = known_bundle(directory)
    large = known.with_name(f"large-{known.name}")
    receiver = load_site(directory).services_node.name
    with padded(known, large, size), sparse_receiver(receiver), with_bundle(directory, large):
        done = measure([*command, "--only", "runai"], whole=True)
    return {
        "stream_gb": size / 1e9,
        "stream_seconds": round(done.seconds, 1),
        "stream_mib": round(done.peak_bytes / MIB, 1),
        "stream_with_children_mib": round(done.tree_peak_bytes / MIB, 1),
        "stream_load": round(done.load, 1),
    }


@contextmanager
def padded(known: Path, large: Path, size: int) -> Iterator[None]:
    """The same archive followed by zeros, of which none is on this machine's disk."""
    subprocess.run(["cp", "--sparse=always", str(known), str(large)], check=True)
    with large.open("r+b") as stream:
        stream.truncate(size)
    yield
    large.unlink()


@contextmanager
def sparse_receiver(node: str) -> Iterator[None]:
    """The node's rsync leaves holes where zeros arrive; without it 20 GB of disk are needed."""
    path = "/usr/local/bin/rsync"
    write = ["podman", "exec", "-i", node, "sh", "-c", f"cat > {path}; chmod 755 {path}"]
    subprocess.run(write, input=SPARSE_RSYNC, text=True, check=True)
    yield
    subprocess.run(["podman", "exec", node, "rm", path], check=True)


@contextmanager
def with_bundle(directory: Path, path: Path) -> Iterator[None]:
    """The site with another vendor bundle."""
    settings = directory / "group_vars/all/site.yml"
    before = settings.read_text()
    found = yaml.safe_load(before)
    found["runai"]["vendor_bundle"] = str(path)
    settings.write_text(yaml.safe_dump(found))
    yield
    settings.write_text(before)


def _environment(directory: Path, bundle: Path) -> Mapping[str, str]:
    connected = Application().connect(directory, bundle)
    site, desired = connected.site, connected.desired
    settings, runai, manifest = site.settings, site.settings.runai, desired.manifest
    if runai is None or manifest is None:
        raise ValueError("the lab's site has no Run:ai, or the bundle no manifest")
    files = directory.with_name(f"{directory.name}-floor")
    measure(appliance("runai", "csr", "--site", str(directory), "--out", str(files), "--sign"))
    for kind in ("crt", "key"):
        (files / f"{site.runai_domain}.{kind}").rename(files / f"tls.{kind}")
    vault = AnsibleVault(directory / KEPT).read(site.vault_file)
    (files / "ca.crt").write_text(vault["vault_site_ca_certificate"])
    (files / "password").write_text(FIRST_PASSWORD)
    (files / "gpu.json").write_text(yaml.safe_dump(operator_values(desired, manifest)))
    server = (*manifest.package_roots["storage_server"], *manifest.package_roots["dns"])
    master = site.services_node
    return {
        "FLOOR_KEY": str(settings.ssh.private_key),
        "FLOOR_KNOWN_HOSTS": str(site.known_hosts),
        "FLOOR_LOGIN": settings.ssh.user,
        "FLOOR_MASTER": str(master.ip),
        "FLOOR_NODES": " ".join(
            f"{node.name}={node.ip}" for node in sorted(site.nodes, key=lambda n: n != master)
        ),
        "FLOOR_SYSTEM": site.in_group(SYSTEM_NODES)[0].name,
        "FLOOR_GPU": " ".join(node.name for node in site.in_group(GPU_WORKERS)),
        "FLOOR_GPUS": str(GPUS_OF_RUNAI),
        "FLOOR_REGISTRY": settings.registry,
        "FLOOR_DOMAIN": site.runai_domain,
        "FLOOR_ADDRESS": str(site.runai_address),
        "FLOOR_CLUSTER": runai.cluster_name or site.name,
        "FLOOR_TAR": str(runai.vendor_bundle),
        "FLOOR_FILES": str(files),
        "FLOOR_CLIENT": " ".join(manifest.package_roots["storage"]),
        "FLOOR_SERVER": " ".join(name for name in server if "kernel" not in name),
    }


def summary(all_of: Callable[[str, str], list[float]]) -> dict[str, list[float]]:
    """What the targets speak of; ``all_of(part, key)`` gives a number of each round."""
    floors, installs = all_of("runai-floor", "seconds"), all_of("runai", "seconds")
    return {
        "Run:ai's floor, seconds": floors,
        "Run:ai's steps, seconds": installs,
        "Run:ai's steps ÷ floor": [a / b for a, b in zip(installs, floors, strict=False)],
        "second run with Run:ai, seconds": all_of("runai", "second_run_seconds"),
        "registry again, seconds": all_of("runai", "registry_again_seconds"),
        "registry's play again, seconds": all_of("runai", "registry_play_seconds"),
        "20 GB streamed, MiB": all_of("runai", "stream_mib"),
        "20 GB streamed, seconds": all_of("runai", "stream_seconds"),
    }
