"""A backup of a lab: made, verified with its key, listed, and killed at random moments."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.commands import appliance, succeed
from tests.lab.conftest import LabSite
from tests.lab.support.runbook import Runbook

pytestmark = [pytest.mark.lab, pytest.mark.slow]

PAGE = Runbook("back-up-the-appliance")
FILE = "/mnt/backups/rack-20261127T023000Z.backup"  # in the page
RANDOM = random.SystemRandom()
KILLS = 4
SECRETS = ("/etc/kubernetes/pki/ca.key", "/etc/kubernetes/admin.conf")


@pytest.fixture(scope="module")
def place(installed_lab: LabSite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for backups, two keys beside it, and the section in site.yml, which goes again."""
    folder = tmp_path_factory.mktemp("backups")
    (folder / "place").mkdir()
    keys = [
        succeed("cluster", "backup", "key", str(folder / name)).stdout.splitlines()[0]
        for name in ("operator.key", "escrow.key")
    ]
    settings = installed_lab.directory / "group_vars/all/site.yml"
    before = settings.read_text()
    section: dict[str, Any] = {"recipients": keys, "to": str(folder / "place")}
    settings.write_text(before + yaml.safe_dump({"backup": section}))
    yield folder
    settings.write_text(before)


def create(lab: LabSite, *more: str) -> dict[str, Any]:
    words = PAGE.words("appliance cluster backup create --site SITE", {"SITE": str(lab.directory)})
    found = json.loads(succeed(*words, "--yes", *more, "--output", "json").stdout)["backup"]
    assert isinstance(found, dict)
    return found


def listed(lab: LabSite) -> dict[str, str]:
    words = PAGE.words("appliance cluster backup list --site SITE", {"SITE": str(lab.directory)})
    found = json.loads(succeed(*words, "--output", "json").stdout)
    return {one["id"]: one["state"] for one in found["backups"]}


def left_on(lab: LabSite) -> str:
    folders = "/var/lib/appliance/backup /var/lib/appliance/etcd-trials"
    return lab.shell("cp1", f"ls -A {folders} 2>/dev/null | grep -v : || :").strip()


def test_a_backup_is_made_and_proved(
    installed_lab: LabSite, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = {"SITE": str(installed_lab.directory)}
    before = listed(installed_lab)
    succeed(*PAGE.words("appliance cluster backup create --site SITE --dry-run", site))
    assert listed(installed_lab) == before
    began = time.monotonic()
    made = create(installed_lab)
    took = time.monotonic() - began
    assert {"etcd", "control_plane", "site", "tls", "registry", "objects"} <= set(made["kinds"])
    assert made["missing"] == []
    newest = "cat $(ls /var/lib/appliance/etcd-snapshots/*-backup.db.json | tail -n 1)"
    dump = float(json.loads(installed_lab.shell("cp1", newest))["restore_seconds"])
    with capsys.disabled():
        figures = f"backup: {took:.1f} s, of which the snapshot and its proof took {dump:.1f} s"
        print(figures)  # noqa: T201 - a figure
    file = place / "place" / f"{made['id']}.backup"
    values = {**site, FILE: str(file)}
    said = succeed(*PAGE.words(f"appliance cluster backup verify {FILE} --site SITE", values))
    assert f"verified: {made['id']}" in said.stdout
    for name in ("operator.key", "escrow.key"):
        words = PAGE.words(
            f"appliance cluster backup verify {FILE} --identity my-key.txt --site SITE",
            {**values, "my-key.txt": str(place / name)},
        )
        said = succeed(*words)
        assert "etcd: restored on" in said.stdout
        assert "may be from somebody else" not in said.stderr
    assert listed(installed_lab)[made["id"]] == "whole"
    assert left_on(installed_lab) == ""


def test_nothing_of_it_is_readable_without_a_key(installed_lab: LabSite, place: Path) -> None:
    made = create(installed_lab)
    content = (place / "place" / f"{made['id']}.backup").read_bytes()
    for path in SECRETS:
        text = installed_lab.shell("cp1", f"cat {path}")
        lines = [line for line in text.splitlines() if len(line) > 40]
        assert lines
        assert [line for line in lines if line.encode() in content] == []
    beside = (place / "place" / f"{made['id']}.backup.json").read_text()
    assert installed_lab.address("cp1") not in beside


def test_one_flipped_byte_is_refused(installed_lab: LabSite, place: Path) -> None:
    made = create(installed_lab)
    file = place / "place" / f"{made['id']}.backup"
    content = bytearray(file.read_bytes())
    content[RANDOM.randrange(len(content))] ^= 1
    file.write_bytes(content)
    words = ("cluster", "backup", "verify", str(file), "--site", str(installed_lab.directory))
    done = appliance(*words)
    assert (done.returncode, "sha256" in done.stderr) == (5, True), done.stderr
    file.unlink()
    file.with_name(file.name + ".json").unlink()


def test_killed_at_random_moments_the_same_command_ends_it(
    installed_lab: LabSite, place: Path
) -> None:
    before = listed(installed_lab)
    words = ("cluster", "backup", "create", "--site", str(installed_lab.directory), "--yes")
    for _ in range(KILLS):
        moment = RANDOM.uniform(0.5, 9)
        with subprocess.Popen(
            [sys.executable, "-m", "appliance", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            time.sleep(moment)
            process.send_signal(signal.SIGKILL)
        assert "damaged" not in listed(installed_lab).values(), f"killed after {moment:.1f} s"
    made = create(installed_lab)
    after = listed(installed_lab)
    assert after[made["id"]] == "whole"
    assert "damaged" not in after.values()
    assert [one for one, state in after.items() if state == "interrupted"] == []
    assert before.keys() <= after.keys()
    assert list((place / "place").glob("*.partial")) == []
    assert left_on(installed_lab) == ""
