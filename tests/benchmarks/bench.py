"""The benchmark: ratios against a floor, measured side by side in one run. It asserts nothing.

README.md beside it says how to run it and what each number means.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from appliance.adapters.bundle.directory import BundleDirectory
from appliance.adapters.site.files import load_site
from appliance.model.site.settings import Site
from tests.benchmarks import with_runai
from tests.benchmarks.labs import Lab, Result, appliance, node_cpu, steps_of
from tests.benchmarks.measured import MIB, basics, measure, median
from tests.vendor_bundles import tiny_bundle, with_hole

HERE = Path(__file__).resolve().parent
TARGETS = {
    "install ÷ floor": 1.5,
    "second run, seconds": 5.0,
    "--help, seconds": 0.3,
    "control process, MiB": 200.0,
    "bundle verify ÷ sha256sum": 1.2,
    "vendor bundle of 20 GB, MiB": 250.0,
    "Run:ai's steps ÷ floor": 1.3,
    "second run with Run:ai, seconds": 8.0,
    "registry again, seconds": 3.0,
    "20 GB streamed, MiB": 250.0,
    "warm lab up, seconds": 180.0,
    "cold lab up, seconds": 1200.0,
}


def floor(lab: Lab) -> Result:
    """Bare nodes to the same cluster by a shell script."""
    directory, _ = lab.up("--bare")
    site = load_site(directory)
    result: Result = {}
    with node_cpu(site, result):
        done = measure(
            [str(HERE / "floor" / "floor.sh")], environment=_floor_environment(site, lab)
        )
    lines = [line.partition(" ") for line in done.output.splitlines()]
    return result | basics(done) | {"done_after": {what: float(at) for at, _, what in lines}}


def _floor_environment(site: Site, lab: Lab) -> dict[str, str]:
    settings, manifest = site.settings, BundleDirectory(lab.bundle).manifest
    endpoint = settings.control_plane_endpoint

    def packages(*groups: str) -> str:
        return " ".join(name for group in groups for name in manifest.package_roots.get(group, ()))

    return {
        "FLOOR_BUNDLE": str(lab.bundle.resolve()),
        "FLOOR_KEY": str(settings.ssh.private_key),
        "FLOOR_KNOWN_HOSTS": str(site.known_hosts),
        "FLOOR_LOGIN": settings.ssh.user,
        "FLOOR_MASTER": f"{site.control_plane[0].name}={site.control_plane[0].ip}",
        "FLOOR_WORKERS": " ".join(f"{node.name}={node.ip}" for node in site.workers),
        "FLOOR_REGISTRY": settings.registry,
        "FLOOR_ARTIFACTS": settings.artifacts,
        "FLOOR_API": f"{endpoint.name}:{endpoint.port}",
        "FLOOR_PODS": str(settings.network.pod_cidr),
        "FLOOR_SERVICES": str(settings.network.service_cidr),
        "FLOOR_PACKAGES": packages("host", "time", "runtime", "kubernetes"),
        "FLOOR_MASTER_PACKAGES": packages("artifacts", "registry"),
        "FLOOR_IGNORE": ",".join(settings.kubernetes.ignore_preflight_errors),
    }


def install(lab: Lab) -> Result:
    """Bare nodes to the cluster by the product; then the same command again."""
    directory, _ = lab.up("--bare")
    site = load_site(directory)
    command = appliance("install", "--site", str(directory), "--bundle", str(lab.bundle), "--yes")
    result: Result = {}
    with node_cpu(site, result):
        done = measure(command, whole=True)
    result |= basics(done)
    result["control_process_mib"] = round(done.peak_bytes / MIB, 1)
    result["with_children_mib"] = round(done.tree_peak_bytes / MIB, 1)
    result["steps"] = steps_of(directory)
    again = [measure(command) for _ in range(3)]
    result["second_run_seconds"] = median(done.seconds for done in again)
    result["second_run_steps"] = len(steps_of(directory)) - len(result["steps"])
    return result


def help_page() -> Result:
    """How long a person waits for the list of commands."""
    runs = [measure(appliance("--help")) for _ in range(9)]
    return {"seconds": median(done.seconds for done in runs)}


def verify(bundle: Path) -> Result:
    """Every byte by ``bundle verify``, and by sha256sum; the page cache holds them both times."""
    files = [bundle / item.path for item in BundleDirectory(bundle).manifest.files]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as names:
        names.write("\0".join(str(path) for path in files))
        names.flush()
        plain = ["xargs", "-0", "-a", names.name, "sha256sum"]
        ours = appliance("bundle", "verify", str(bundle))
        measure(plain)
        pairs = [(measure(ours), measure(plain)) for _ in range(3)]
    ratio = median(mine.seconds / other.seconds for mine, other in pairs)
    return {
        "verify_seconds": median(mine.seconds for mine, _ in pairs),
        "sha256sum_seconds": median(other.seconds for _, other in pairs),
        "ratio": ratio,
    }


def vendor(folder: Path) -> Result:
    """A vendor bundle of 20 GB, of which 20 GB are a hole, read once with an empty cache."""
    path = with_hole(tiny_bundle("2.7.1", folder), 20_000_000_000)
    environment = {"APPLIANCE_CACHE": str(folder / "vendor-cache")}
    done = measure(appliance("runai", "inspect", str(path)), environment=environment, whole=True)
    path.unlink()
    return {"seconds": round(done.seconds, 1), "mib": round(done.peak_bytes / MIB, 1)}


def lab_up(lab: Lab) -> Result:
    """The first command of the README once the cache is filled."""
    _, done = lab.up()
    return basics(done) | {"parts": _parts(done.output)}


def cold_lab_up(lab: Lab, folder: Path) -> Result:
    """The same with an empty cache: bundle and node image are built."""
    used = subprocess.run(
        ["podman", "image", "rm", "--", _node_image()], capture_output=True, check=False
    )
    environment = {
        "APPLIANCE_CACHE": str(folder / "cache"),
        "GOPATH": str(folder / "go"),
        "GOCACHE": str(folder / "go-build"),
    }
    _, done = lab.up(environment=environment)
    return basics(done) | {"parts": _parts(done.output), "image_was_removed": not used.returncode}


def _node_image() -> str:
    listed = subprocess.run(
        ["podman", "image", "ls", "--format", "{{.Repository}}:{{.Tag}}", "appliance-lab-node"],
        capture_output=True,
        text=True,
        check=False,
    )
    return next(iter(listed.stdout.split()), "none")


def _parts(table: str) -> dict[str, float]:
    """The lines "part seconds" that lab up prints."""
    found = {}
    for line in table.splitlines():
        name, _, last = line.strip().rpartition(" ")
        if name.strip() and last.replace(".", "", 1).isdigit():
            found[name.strip()] = float(last)
        elif line.startswith("("):
            break
    return found


def summary(results: Sequence[tuple[str, Result]]) -> dict[str, float]:
    """What the targets speak of; of several rounds the median."""

    def all_of(part: str, key: str) -> list[float]:
        return [result[key] for name, result in results if name == part and key in result]

    floors, installs = all_of("floor", "seconds"), all_of("install", "seconds")
    work = [
        sum(result.get(key, 0.0) for key in ("nodes_cpu_seconds", "control_cpu_seconds"))
        for part in ("install", "floor")
        for name, result in results
        if name == part
    ]
    found: dict[str, list[float]] = {
        "floor, seconds": floors,
        "install, seconds": installs,
        "install ÷ floor": [mine / other for mine, other in zip(installs, floors, strict=False)],
        "install ÷ floor in processor time": [
            mine / other
            for mine, other in zip(work[: len(installs)], work[len(installs) :], strict=False)
            if other
        ],
        "second run, seconds": all_of("install", "second_run_seconds"),
        "control process, MiB": all_of("install", "control_process_mib"),
        "with its children, MiB": all_of("install", "with_children_mib"),
        "--help, seconds": all_of("help", "seconds"),
        "bundle verify ÷ sha256sum": all_of("verify", "ratio"),
        "vendor bundle of 20 GB, MiB": all_of("vendor", "mib"),
        "vendor bundle of 20 GB, seconds": all_of("vendor", "seconds"),
        "warm lab up, seconds": all_of("lab", "seconds"),
        "cold lab up, seconds": all_of("cold", "seconds"),
        **with_runai.summary(all_of),
    }
    return {name: round(statistics.median(values), 2) for name, values in found.items() if values}


def show(results: Sequence[tuple[str, Result]]) -> None:
    for part, result in results:
        print(f"\n{part}")  # noqa: T201 - a program that prints
        for key, value in result.items():
            print(f"  {key:22} {value}")  # noqa: T201 - a program that prints
    print(f"\n{'':36}{'measured':>10}{'target':>10}")  # noqa: T201 - a program that prints
    for name, number in summary(results).items():
        target = f"≤ {TARGETS[name]:g}" if name in TARGETS else ""
        print(f"{name:36}{number:10.2f}{target:>10}")  # noqa: T201 - a program that prints


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.bench", description=__doc__)
    parser.add_argument("--bundle", type=Path, required=True, help="a bundle for debian-12")
    parser.add_argument("--name", default="bench", help="name of the lab that is used")
    parser.add_argument("--rounds", type=int, default=1, help="floor and install this many times")
    parser.add_argument(
        "--only",
        nargs="+",
        default=["help", "verify", "vendor", "floor", "install", "lab"],
        metavar="PART",
    )
    parser.add_argument("--cold", action="store_true", help="also lab up with an empty cache")
    parser.add_argument("--keep", action="store_true", help="leave the last lab and its site")
    parser.add_argument("--json", type=Path, help="write everything to this file, too")
    return parser.parse_args()


def main() -> None:
    want = arguments()
    folder = Path(tempfile.mkdtemp(prefix="appliance-bench-"))
    lab = Lab(want.name, want.bundle, folder)
    once: dict[str, Callable[[], Result]] = {
        "help": help_page,
        "verify": lambda: verify(want.bundle),
        "vendor": lambda: vendor(folder),
    }
    each: dict[str, Callable[[], Result]] = {
        "floor": lambda: floor(lab),
        "install": lambda: install(lab),
        "runai-floor": lambda: with_runai.floor(lab),
        "runai": lambda: with_runai.install(lab),
    }
    last: dict[str, Callable[[], Result]] = {"lab": lambda: lab_up(lab)}
    if want.cold:
        last["cold"] = lambda: cold_lab_up(lab, folder)
        want.only.append("cold")
    results: list[tuple[str, Result]] = []
    for part, run in [*once.items(), *(list(each.items()) * want.rounds), *last.items()]:
        if part in want.only:
            print(f"{part} ...", file=sys.stderr)  # noqa: T201 - a program that prints
            results.append((part, run()))
    if not want.keep:
        lab.down()
    show(results)
    if want.json:
        machine = {"cores": os.cpu_count(), "results": results, "summary": summary(results)}
        want.json.write_text(json.dumps(machine, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
