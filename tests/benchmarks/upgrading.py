"""How long an upgrade of Kubernetes takes, beside kubeadm's bare commands. It asserts nothing.

``python -m tests.benchmarks.upgrading --bundle OLD --new-bundle NEW``: root, podman; two labs of
1+2, one after the other. ``--batch`` adds a third, whose two workers are one batch.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import tarfile
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from io import BytesIO
from pathlib import Path
from statistics import mean
from typing import Any

from appliance.adapters.bundle.directory import BundleDirectory
from appliance.adapters.site.files import load_site
from tests.benchmarks.labs import Lab, appliance
from tests.benchmarks.measured import measure
from tests.lab.support.faults import shell, wait

KUBECTL = "kubectl --kubeconfig /etc/kubernetes/admin.conf"
PROGRAMS = ("kubeadm", "kubelet", "kubectl")
OF_A_WORKER = ("kube-proxy:", "pause:")
OF_A_MASTER = (*OF_A_WORKER, "kube-", "etcd:", "coredns", "coredns/")
TARGETS = {"upgrade ÷ floor": 1.3, "two workers in one batch ÷ one": 1.2}


def archive(bundle: Path, registry: str, starts: tuple[str, ...], into: Path) -> Path:
    """Write the images of a bundle as ``docker load`` takes them."""
    layout = bundle / "images"
    index = json.loads((layout / "index.json").read_text())
    listed: list[dict[str, Any]] = []
    names: set[str] = set()
    with tarfile.open(into, "w") as tar:
        for entry in index["manifests"]:
            name = entry["annotations"]["org.opencontainers.image.ref.name"]
            if not name.startswith(starts):
                continue
            manifest = json.loads(_blob(layout, entry["digest"]).read_text())
            blobs = [one["digest"] for one in (manifest["config"], *manifest["layers"])]
            for digest in blobs:
                if digest not in names:
                    tar.add(_blob(layout, digest), digest.partition(":")[2])
                    names.add(digest)
            config, *layers = (digest.partition(":")[2] for digest in blobs)
            listed.append({"Config": config, "RepoTags": [f"{registry}/{name}"], "Layers": layers})
        text = json.dumps(listed).encode()
        info = tarfile.TarInfo("manifest.json")
        info.size = len(text)
        tar.addfile(info, BytesIO(text))
    return into


def _blob(layout: Path, digest: str) -> Path:
    return layout / "blobs" / digest.replace(":", "/")


def floor(site_directory: Path, bundle: Path, folder: Path) -> dict[str, float]:
    """Part -> seconds of kubeadm's own commands, past SSH, on images that are ready to be loaded.

    In the order of the page "Upgrading kubeadm clusters" of Kubernetes 1.23: a control-plane node
    is drained before its kubelet is renewed, too. The parts follow one another: their sum is the
    whole.
    """
    site = load_site(site_directory)
    images = BundleDirectory(bundle).manifest.images
    (version,) = {n.partition(":")[2] for n in images if n.startswith("kube-apiserver:")}
    (master,) = (node.name for node in site.control_plane)
    workers = [node.name for node in site.workers]
    registry = site.settings.registry
    tars = {
        master: archive(bundle, registry, OF_A_MASTER, folder / "master.tar"),
        **dict.fromkeys(workers, archive(bundle, registry, OF_A_WORKER, folder / "worker.tar")),
    }
    ignored = ",".join(site.settings.kubernetes.ignore_preflight_errors)
    parts: dict[str, float] = {}
    began = time.monotonic()

    def ended(part: str) -> None:
        parts[part] = time.monotonic() - began - sum(parts.values())

    def prepare(node: str) -> None:
        shell(node, "mkdir -p /opt/floor")
        for program in PROGRAMS:
            _copy(bundle / "bin" / program, node, f"/opt/floor/{program}")
        with tars[node].open("rb") as content:
            argv = ["podman", "exec", "--interactive", node, "docker", "load", "--quiet"]
            subprocess.run(argv, stdin=content, check=True, capture_output=True)

    def renew(node: str) -> None:
        programs = " ".join(f"/opt/floor/{name}" for name in PROGRAMS)
        shell(node, f"install -m 755 -t /usr/local/bin {programs}")
        shell(node, "systemctl restart kubelet")
        told = f"{KUBECTL} get node {node} -o jsonpath='{{.status.nodeInfo.kubeletVersion}}'"
        wait("the kubelet", master, f'test "$({told})" = {version}', 300)
        wait("it to be Ready", master, f"{KUBECTL} wait --for=condition=Ready node/{node}", 300)

    with ThreadPoolExecutor() as pool:
        list(pool.map(prepare, tars))
    ended("prepare")
    kubeadm = "/opt/floor/kubeadm upgrade"
    _long(master, f"{kubeadm} apply {version} --yes --ignore-preflight-errors={ignored}")
    ended("kubeadm apply")
    drain = "--ignore-daemonsets --delete-emptydir-data"
    _long(master, f"{KUBECTL} drain {master} {drain}")
    renew(master)
    shell(master, f"{KUBECTL} uncordon {master}")
    ended(f"kubelet of {master}")
    for worker in workers:
        _long(master, f"{KUBECTL} drain {worker} {drain}")
        _long(worker, f"{kubeadm} node --ignore-preflight-errors={ignored}")
        renew(worker)
        shell(master, f"{KUBECTL} uncordon {worker}")
        ended(worker)
    return parts


def _copy(path: Path, node: str, to: str) -> None:
    subprocess.run(["podman", "cp", str(path), f"{node}:{to}"], check=True, capture_output=True)


def _long(node: str, command: str) -> None:
    argv = ["podman", "exec", node, *shlex.split(command)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=1800)
    if done.returncode:
        raise RuntimeError(f"{node}: {command}: {done.stderr[-2000:]}")


def ours(site: Path, bundle: Path, release: str, *more: str) -> float:
    """Seconds of the command, to its end."""
    words = ["cluster", "upgrade", "--to", release, "--site", str(site)]
    done = measure(appliance(*words, "--bundle", str(bundle), "--yes", *more))
    return float(done.seconds)


def records(site: Path) -> list[dict[str, Any]]:
    """The site's journal, oldest first."""
    told = measure(appliance("history", "--last", "1000", "--site", str(site), "--output", "json"))
    return list(json.loads(told.output))


def steps_of_upgrade(journal: list[dict[str, Any]]) -> dict[str, float]:
    """Step -> seconds, of the steps of an upgrade in the site's journal, in all."""
    found: dict[str, float] = {}
    for record in journal:
        if "upgrade" in record["step"] or "kubelet" in record["step"]:
            found[record["step"]] = found.get(record["step"], 0.0) + record["took_seconds"]
    return found


def steps_of_workers(journal: list[dict[str, Any]], workers: set[str]) -> list[str]:
    """The records of these workers alone, as lines."""
    return [
        f"{record['step']} {'+'.join(record['nodes'])} {record['took_seconds']:.1f}"
        for record in _of_workers(journal, workers)
    ]


def seconds_of_workers(journal: list[dict[str, Any]], workers: set[str]) -> float:
    """From the first record of these workers' renewal to the end of the last; a second's error.

    What is between two records counts: looks, and the gaps. What is before the first does not.
    """
    own = _of_workers(journal, workers)
    began = [datetime.fromisoformat(record["started"]).timestamp() for record in own]
    ended = [at + record["took_seconds"] for at, record in zip(began, own, strict=True)]
    return float(max(ended) - min(began))


def _of_workers(journal: list[dict[str, Any]], workers: set[str]) -> list[dict[str, Any]]:
    """Its steps out of service, by nodes of this set and no other."""
    out = ("maintain: ", "return: ", "upgrade: kubelet")
    return [
        record
        for record in journal
        if record["command"] == "cluster upgrade"
        and record["step"].startswith(out)
        and record["nodes"]
        and set(record["nodes"]) <= workers
    ]


def delta(old: Path, new: Path) -> tuple[int, int]:
    """Bytes that a site with the old bundle lacks of the new one, and all bytes of the new one."""
    has = {item.sha256 for item in BundleDirectory(old).manifest.files}
    files = BundleDirectory(new).manifest.files
    return sum(f.size for f in files if f.sha256 not in has), sum(f.size for f in files)


def load() -> str:
    return Path("/proc/loadavg").read_text(encoding="ascii").split()[0]


def show(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - a program that prints


def main() -> None:
    """Measure, and print one line a number."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bundle", type=Path, required=True, help="of the old release")
    parser.add_argument("--new-bundle", type=Path, required=True, help="of the new release")
    parser.add_argument("--name", default="benchup", help="name of the lab that is used")
    parser.add_argument("--batch", action="store_true", help="also both workers as one batch")
    given = parser.parse_args()
    lacks, whole = delta(given.bundle, given.new_bundle)
    show(f"delta ÷ whole bundle: {lacks / whole:.2f} ({lacks >> 20} of {whole >> 20} MiB)")
    release = str(BundleDirectory(given.new_bundle).manifest.release)
    folder = Path(tempfile.mkdtemp(prefix="appliance-bench-"))
    lab = Lab(given.name, given.bundle, folder)
    site, _ = lab.up()
    parts = floor(site, given.new_bundle, folder)
    bare = sum(parts.values())
    words = ", ".join(f"{part} {seconds:.1f}" for part, seconds in parts.items())
    show(f"floor: {bare:.0f} s (load {load()}); parts: {words}")
    site, _ = lab.up()
    took = ours(site, given.new_bundle, release)
    journal, workers = records(site), [node.name for node in load_site(site).workers]
    show(f"cluster upgrade: {took:.0f} s (load {load()}); steps: {steps_of_upgrade(journal)}")
    alone = [seconds_of_workers(journal, {worker}) for worker in workers]
    for worker, seconds in zip(workers, alone, strict=True):
        show(f"{worker} alone: {seconds:.0f} s; {steps_of_workers(journal, {worker})}")
    show(f"upgrade ÷ floor: {took / bare:.2f} (target {TARGETS['upgrade ÷ floor']})")
    if given.batch:
        site, _ = lab.up()
        batched = ours(site, given.new_bundle, release, "--max-unavailable", "2")
        journal = records(site)
        show(f"with a batch: {batched:.0f} s (load {load()}); {steps_of_upgrade(journal)}")
        together = seconds_of_workers(journal, set(workers))
        show(f"one batch: {together:.0f} s; {steps_of_workers(journal, set(workers))}")
        ratio, target = together / mean(alone), TARGETS["two workers in one batch ÷ one"]
        show(f"two workers in one batch ÷ one: {ratio:.2f} (target {target})")
    lab.down()


if __name__ == "__main__":
    main()
