"""Run:ai is upgraded in a lab, from stand-in to stand-in: kept, resumed, and taken back.

The lab has another version afterwards. Only the hops from 2.7 are here, because the lab of this
folder has that version; ``tests/lab/test_runai_hops.py`` has the older ones.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from appliance.lab.vendor.bundle import build_vendor_bundle
from tests.archives import extract
from tests.lab.conftest import LabSite, wait_for
from tests.lab.runai.backend import HELM, clusters, make_project, projects, versions
from tests.lab.runai.commands import Commands
from tests.lab.support.cluster import KUBECTL, kubectl
from tests.lab.support.runbook import Runbook

pytestmark = [pytest.mark.lab, pytest.mark.slow]

PAGE, FAILED = Runbook("upgrade-runai"), Runbook("upgrade-that-failed")
RECORD = "/var/lib/appliance/runai/upgrade.json"
PROJECT = "before-the-upgrade"


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Vendor bundles of the stand-in: two to go to, and one whose backend never becomes ready."""
    folder = tmp_path_factory.mktemp("vendor")
    found = {version: build_vendor_bundle(version, folder) for version in ("2.8.2", "2.8.4")}
    found["broken"] = broken(build_vendor_bundle("2.8.6", folder), folder / "broken")
    return found


def broken(path: Path, folder: Path) -> Path:
    """The same bundle, whose backend's chart asks for an image that nobody pushes."""
    with tarfile.open(path) as opened:
        extract(opened, folder)
    (chart,) = folder.glob("deploy/runai-backend-*.tgz")
    with tarfile.open(chart) as opened:
        extract(opened, folder / "chart")
    template = folder / "chart/runai-backend/templates/backend.yaml"
    template.write_text(template.read_text().replace('"name" "backend"', '"name" "absent"'))
    with tarfile.open(chart, "w:gz") as packed:
        packed.add(folder / "chart/runai-backend", "runai-backend")
    target = folder / path.name
    with tarfile.open(target, "w") as packed:
        packed.add(folder / "deploy", "deploy")
    return target


def words(lab: LabSite, bundle: Path) -> list[str]:
    values = {"FILE": str(bundle), "SITE": str(lab.directory)}
    return [*PAGE.words("appliance runai upgrade FILE --site SITE", values), "--yes"]


def is_connected(lab: LabSite) -> None:
    assert [one["status"] for one in clusters(lab)] == ["connected"]
    assert PROJECT in projects(lab)


def test_a_dry_run_names_every_step_and_changes_nothing(
    runai_lab: LabSite, bundles: dict[str, Path], commands: Commands
) -> None:
    make_project(runai_lab, PROJECT)
    values = {"FILE": str(bundles["2.8.2"]), "SITE": str(runai_lab.directory)}
    given = PAGE.words("appliance runai upgrade FILE --site SITE --dry-run", values)
    told = json.loads(commands.succeed(*given, "-o", "json").stdout)
    assert [step["name"] for step in told["steps"]] == [
        "runai_backup",
        "runai_prepare",
        "runai_upgrade",
    ]
    assert versions(runai_lab) == {("2.7.14", "deployed")}
    assert runai_lab.shell("cp1", f"test -e {RECORD} && echo there", check=False) == ""


def test_an_upgrade_keeps_login_connection_and_projects(
    runai_lab: LabSite, bundles: dict[str, Path], commands: Commands
) -> None:
    began = time.monotonic()
    commands.succeed(*words(runai_lab, bundles["2.8.2"]), timeout=2400)
    print(f"upgrade 2.7.14 to 2.8.2: {time.monotonic() - began:.0f} s")  # noqa: T201 - a figure
    assert versions(runai_lab) == {("2.8.2", "deployed")}
    is_connected(runai_lab)
    record = json.loads(runai_lab.shell("cp1", f"cat {RECORD}"))
    dump = runai_lab.shell("cp1", f"cat {record['dump']['path']}")
    assert PROJECT in dump
    assert "PostgreSQL database dump complete" in dump
    volumes = json.loads(kubectl(runai_lab, "get persistentvolumes -o json"))["items"]
    ours = [
        one["spec"]
        for one in volumes
        if one["spec"].get("claimRef", {}).get("namespace", "").startswith("run")
    ]
    assert {one["persistentVolumeReclaimPolicy"] for one in ours} == {"Retain"}


def test_a_second_run_has_nothing_to_do(
    runai_lab: LabSite, bundles: dict[str, Path], commands: Commands
) -> None:
    done = commands.succeed(*words(runai_lab, bundles["2.8.2"]))
    assert "nothing to do" in done.stdout


def kill_at(given: list[str], step: str) -> None:
    """Kill a command 5 s after it names a step.

    A killed run that still renewed the lock while the next one looked makes that one be refused,
    once; its hint is the same command.
    """
    for _ in range(2):
        process = subprocess.Popen(
            [sys.executable, "-m", "appliance", *given],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None
        said = []
        with process.stdout:
            for line in process.stdout:
                said.append(line)
                if f"{step}:" in line:
                    break
            else:
                assert "the site was changed while this command inspected it" in "".join(said), said
                assert process.wait(30) == 3, said
                continue
            time.sleep(5)
            process.send_signal(signal.SIGKILL)
            assert process.wait(30) == -signal.SIGKILL, said
            return
    pytest.fail(f"{step} was not reached: {said}")


@pytest.mark.parametrize("step", ["runai_backup", "runai_prepare", "runai_upgrade"])
def test_a_run_that_is_killed_is_resumed_by_the_same_command(
    runai_lab: LabSite, bundles: dict[str, Path], step: str
) -> None:
    kill_at(words(runai_lab, bundles["2.8.4"]), step)


def test_the_run_after_the_last_kill_ends_it(
    runai_lab: LabSite, bundles: dict[str, Path], commands: Commands
) -> None:
    values = {"VENDOR_BUNDLE": str(bundles["2.8.4"]), "SITE": str(runai_lab.directory)}
    page = FAILED.words("appliance runai upgrade VENDOR_BUNDLE --site SITE --dry-run", values)
    commands.succeed(*page)
    commands.succeed(*words(runai_lab, bundles["2.8.4"]), timeout=2400)
    assert versions(runai_lab) == {("2.8.4", "deployed")}
    is_connected(runai_lab)


def test_a_backend_that_does_not_become_ready_is_taken_back(
    runai_lab: LabSite, bundles: dict[str, Path], commands: Commands
) -> None:
    done = commands.run(*words(runai_lab, bundles["broken"]), timeout=2400)
    assert done.returncode == 1, done.stderr
    assert "the releases of Run:ai 2.8.4 were restored" in done.stderr
    wait_for("the backend before", lambda: versions(runai_lab) == {("2.8.4", "deployed")}, 300)
    is_connected(runai_lab)


def test_an_upgrade_that_was_killed_before_helm_is_dropped(
    runai_lab: LabSite, bundles: dict[str, Path], commands: Commands
) -> None:
    kill_at(words(runai_lab, bundles["broken"]), "runai_prepare")
    dropped = ["runai", "upgrade", "--abandon", "--site", str(runai_lab.directory), "--yes"]
    assert "the upgrade to Run:ai 2.8.6 was dropped" in commands.succeed(*dropped).stdout
    assert versions(runai_lab) == {("2.8.4", "deployed")}
    is_connected(runai_lab)


def test_without_all_secrets_helm_does_not_upgrade(runai_lab: LabSite) -> None:
    """The trap of the vendor's first page for 2.9: "all secrets" are Helm's own as well."""
    lab = runai_lab
    chart = "/tmp/trap"  # noqa: S108 - on a node of the lab
    lab.shell(
        "cp1",
        f"mkdir -p {chart}/templates && "
        f"printf 'apiVersion: v2\\nname: trap\\nversion: 1.0.0\\n' >{chart}/Chart.yaml && "
        f"printf 'apiVersion: v1\\nkind: ConfigMap\\nmetadata: {{name: trap}}\\n' "
        f">{chart}/templates/map.yaml",
    )
    lab.shell("cp1", f"{HELM} install trap {chart} -n trap --create-namespace")
    lab.shell("cp1", f"{HELM} upgrade trap {chart} -n trap")
    lab.shell("cp1", f"{KUBECTL} delete secrets --all -n trap")
    said = lab.shell("cp1", f"{HELM} upgrade trap {chart} -n trap 2>&1", check=False)
    assert "has no deployed releases" in said
    lab.shell("cp1", f"{KUBECTL} delete namespace trap --wait=false && rm -r {chart}")
