"""What differs, who holds the lock, and the script that apt runs in."""

from __future__ import annotations

import fcntl
import fnmatch
import hashlib
import os
import struct
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from appliance.model.checks.nodes.software import OUR_UNITS
from tests.unit.modules.loading import load_utils

packages = load_utils("appliance_packages")

QUERY = "\n".join(
    [
        "chrony\t4.3-2+deb12u1\tii ",
        "containerd\t1.6.20\thi ",
        "docker.io\t20.10.24\tiHR",
        "runc\t1.1.5\tiU ",
        "gone\t1.0\trc ",
        "",
    ]
)


INDEX = "0f" * 32
SOURCE = "https://artifacts.rack.test:9443/apt"


def source_list(
    folder: Path, index: str = INDEX, line: str = f"deb [trusted=yes] {SOURCE} ./"
) -> str:
    path = folder / "packages.list"
    path.write_text(line + "\n")
    path.with_name("packages.list.sha256").write_text(index + "\n")
    return str(path)


def planned(wanted: dict[str, str], patterns: tuple[str, ...] = (), query: str = QUERY) -> Any:
    return packages.PlannedRun(packages.Observed.parse(query), wanted, patterns, False)


def test_installed_half_installed_and_held_are_distinguished() -> None:
    observed = packages.Observed.parse(QUERY)
    assert observed.versions == {"chrony": "4.3-2+deb12u1", "containerd": "1.6.20"}
    assert observed.half == ["docker.io", "runc"]
    assert observed.held == {"containerd"}


def test_what_is_there_in_its_version_needs_nothing() -> None:
    found = planned({"chrony": "4.3-2+deb12u1"}, query="chrony\t4.3-2+deb12u1\thi ")
    assert not found.needs_dpkg
    assert found.to_hold == []


@pytest.mark.parametrize("version", ["4.4-1", "4.3-2"])
def test_another_version_is_missing(version: str) -> None:
    assert planned({"chrony": version}).missing == {"chrony": version}


def test_a_half_installed_package_of_anybody_needs_dpkg() -> None:
    found = planned({"chrony": "4.3-2+deb12u1"})
    assert found.needs_dpkg
    assert found.missing == {}


def test_holds_follow_patterns_and_leave_held_ones_alone() -> None:
    assert planned({}, ("containerd*", "chr*", "absent*")).to_hold == ["chrony"]


def test_dpkg_says_itself_that_it_was_interrupted(tmp_path: Path) -> None:
    (tmp_path / "updates").mkdir()
    assert not packages.updates_pending(tmp_path)
    (tmp_path / "updates" / "tmp.i").touch()
    assert not packages.updates_pending(tmp_path)
    (tmp_path / "updates" / "0001").touch()
    assert packages.updates_pending(tmp_path)
    assert not packages.updates_pending(tmp_path / "absent")


def test_the_holder_of_the_lock_is_named(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.touch()
    assert packages.lock_holder([tmp_path / "absent", lock]) is None
    script = (
        "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); "
        "print('locked', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", script, str(lock)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "locked\n"
    told = packages.lock_holder([tmp_path / "absent", lock])
    holder.communicate()
    assert f"pid {holder.pid} (" in told
    assert "python" in told


def test_the_lock_structure_is_that_of_the_kernel() -> None:
    assert struct.calcsize(packages._FLOCK) == 32
    assert fcntl.F_GETLK
    assert os.SEEK_SET == 0


def test_waiting_for_the_lock_ends_and_says_who_holds_it() -> None:
    clock = iter(range(100))
    with pytest.raises(packages.PackagesError, match=r"pid 7 \(unattended-upgr\) has held"):
        packages.wait_for_lock(
            3, lambda: "pid 7 (unattended-upgr)", lambda: next(clock), lambda _: None
        )


def test_waiting_goes_on_when_the_lock_is_released() -> None:
    answers = iter(["pid 7 (apt)", None])
    packages.wait_for_lock(60, lambda: next(answers), lambda: 0, lambda _: None)


LOCKED = "dpkg: error: dpkg frontend lock was locked by another process with pid 9478\nNote: no"
# dpkg up to 1.19, which Ubuntu 20.04 has.
LOCKED_IN_FOCAL = "dpkg: error: dpkg frontend is locked by another process"


@pytest.mark.parametrize(
    ("answers", "ran", "fault"),
    [
        pytest.param([(0, "", "")], 1, "", id="free"),
        pytest.param([(100, "", LOCKED), (0, "", "")], 2, "", id="a killed run ends meanwhile"),
        pytest.param([(100, "", LOCKED_IN_FOCAL), (0, "", "")], 2, "", id="on Ubuntu 20.04"),
        pytest.param([(100, "", LOCKED)] * 9, 3, "with pid 9478 Note", id="held for ever"),
        pytest.param([(100, "", LOCKED)] * 9, 3, "or stop apt-daily", id="what to do is said"),
        pytest.param([(100, "E: no such package", "")], 1, "no such package", id="refused"),
    ],
)
def test_a_hold_waits_for_the_lock(
    answers: list[tuple[int, str, str]], ran: int, fault: str
) -> None:
    clock, commands = iter(range(100)), []

    def run(argv: list[str]) -> tuple[int, str, str]:
        commands.append(argv)
        return answers[len(commands) - 1]

    outcome = pytest.raises(packages.PackagesError, match=fault) if fault else nullcontext()
    with outcome:
        packages.hold(run, ["docker.io"], 3, lambda: next(clock), lambda _: None)
    assert commands == [["apt-mark", "hold", "docker.io"]] * ran


def test_only_one_source_and_no_configuration_of_the_site_is_read(tmp_path: Path) -> None:
    text = packages.apt_configuration("/etc/appliance/packages.list", tmp_path, 60)
    assert 'Dir::Etc::sourcelist "/etc/appliance/packages.list";' in text
    assert 'Dir::Etc::sourceparts "/dev/null";' in text
    assert 'Dir::Etc::main "/dev/null";' in text
    assert f'Dir::State::lists "{tmp_path}/lists";' in text
    # It names its host; a question to a DNS server that is not there costs five seconds.
    assert 'Acquire::EnableSrvRecords "false";' in text


@pytest.mark.parametrize(
    ("missing", "want", "expected"),
    [
        ({"b": "2", "a": "1"}, {}, ["install", "--allow-change-held-packages", "a=1", "b=2"]),
        (
            {"a": "1"},
            {"allow_downgrade": True},
            ["install", "--allow-change-held-packages", "--allow-downgrades", "a=1"],
        ),
    ],
)
def test_the_command_names_exact_versions(
    missing: dict[str, str], want: dict[str, Any], expected: list[str], tmp_path: Path
) -> None:
    options = {"start_services": False, "replaces": ["ntp"], "allow_downgrade": False, **want}
    options["source_list"] = source_list(tmp_path)
    command = packages.job_command(planned(missing, query=""), "/conf", options)
    assert command[2:5] == ["/usr/sbin/policy-rc.d", "/conf", " ntp "]
    assert command[5:8] == ["/var/lib/appliance/apt/lists", INDEX, SOURCE]
    assert command[8:] == expected


def test_a_half_installed_state_alone_is_repaired_without_package_names(tmp_path: Path) -> None:
    options = {"start_services": True, "replaces": [], "allow_downgrade": False}
    options["source_list"] = source_list(tmp_path)
    command = packages.job_command(planned({}), "/conf", options)
    assert command[2] == ""
    assert command[8:] == ["install", "--fix-broken"]


def test_the_preflight_knows_our_own_work_by_the_unit_that_it_runs_in() -> None:
    job = load_utils("appliance_job").NodeJob("packages", lambda _argv: (0, "", ""))
    assert fnmatch.fnmatchcase(job.unit, OUR_UNITS)


@pytest.mark.parametrize(
    ("index", "line", "words"),
    [
        ("", f"deb [trusted=yes] {SOURCE} ./", "is no digest"),
        ("0F" * 32, f"deb [trusted=yes] {SOURCE} ./", "is no digest"),
        (INDEX, "", "has 0 sources"),
        (INDEX, f"deb {SOURCE} ./\ndeb http://elsewhere.test ./", "has 2 sources"),
    ],
)
def test_a_source_without_the_digest_of_its_index_is_refused(
    tmp_path: Path, index: str, line: str, words: str
) -> None:
    with pytest.raises(packages.PackagesError, match=words):
        packages.source_of(source_list(tmp_path, index, line))
    (tmp_path / "packages.list.sha256").unlink()
    with pytest.raises(packages.PackagesError, match=r"run the step 'artifacts' first"):
        packages.source_of(str(tmp_path / "packages.list"))


class Script:
    """The script with an apt-get and a dpkg that write down what they are asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.policy = folder / "policy-rc.d"
        self.log = folder / "log"
        (folder / "bin").mkdir()
        (folder / "lists").mkdir()
        self.index = folder / "lists" / "rack_apt_._Packages"
        self.index.write_text("Package: a\n")
        self.program("dpkg", f'echo "dpkg $*" >> {self.log}')
        self.program("apt-get", f'echo "apt-get $*" >> {self.log}')

    def program(self, name: str, body: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def run(self, *arguments: str, replaces: str = "  ") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/sh", "-c", packages.SCRIPT, "x", str(self.policy), "/c", replaces,
             str(self.index.parent), hashlib.sha256(b"Package: a\n").hexdigest(), SOURCE,
             *arguments],
            env={"PATH": f"{self.folder / 'bin'}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )  # fmt: skip

    @property
    def lines(self) -> list[str]:
        return self.log.read_text().splitlines()


@pytest.fixture
def script(tmp_path: Path) -> Script:
    return Script(tmp_path)


def test_an_interrupted_dpkg_is_completed_before_apt_runs(script: Script) -> None:
    assert script.run("install", "a=1").returncode == 0
    assert [line.split()[0] for line in script.lines] == ["dpkg", "apt-get", "apt-get", "apt-get"]
    assert "--configure -a" in script.lines[0]


def test_services_are_kept_from_starting_and_the_policy_is_taken_away_again(
    script: Script,
) -> None:
    script.program("apt-get", f"sh {script.policy}; echo said $? >> {script.log}; exit 1")
    assert script.run("install", "a=1").returncode == 1
    assert "said 101" in script.lines
    assert not script.policy.exists()


def test_a_policy_of_the_site_stays(script: Script) -> None:
    script.policy.write_text("theirs")
    assert script.run("install", "a=1").returncode == 0
    assert script.policy.read_text() == "theirs"
    packages.remove_stale_policy(script.policy)
    assert script.policy.exists()


def test_our_policy_left_by_a_power_cut_is_recognised_and_removed(script: Script) -> None:
    script.policy.write_text(f"#!/bin/sh\n{packages.POLICY_MARK}\nexit 101\n")
    assert packages.is_stale_policy(script.policy)
    packages.remove_stale_policy(script.policy)
    assert not script.policy.exists()
    assert not packages.is_stale_policy(script.policy)


REMOVES = 'case "$*" in *-s*) echo "Remv docker-ce [5:20.10]";; esac'


def test_a_package_removal_that_is_not_allowed_is_refused_before_unpacking(script: Script) -> None:
    script.program("apt-get", f'echo "apt-get $*" >> {script.log}\n{REMOVES}')
    done = script.run("install", "docker.io=1")
    assert done.returncode == 3
    assert "apt would remove docker-ce" in done.stderr
    assert [line for line in script.lines if "apt-get -q install" in line] == []


def test_a_removal_that_is_allowed_happens(script: Script) -> None:
    script.program("apt-get", f'echo "apt-get $*" >> {script.log}\n{REMOVES}')
    assert script.run("install", "docker.io=1", replaces=" docker-ce ").returncode == 0
    assert script.lines[-1] == "apt-get -q install docker.io=1"


def test_what_apt_is_about_to_install_is_written_down_before_it_does(script: Script) -> None:
    planned = script.folder / packages.PLANNED
    said = 'echo "Inst docker.io (20 rack [amd64])"; echo "Inst runc:amd64 [1] (2 rack)"'
    body = f'case "$*" in *-s*) {said};; *"-q install"*) cp {planned} {script.log}; exit 9;; esac'
    script.program("apt-get", body)
    assert script.run("install", "docker.io=1").returncode == 9
    assert script.log.read_text().split() == ["docker.io", "runc"]


def test_what_is_refused_is_not_about_to_be_installed(script: Script) -> None:
    script.program("apt-get", REMOVES)
    assert script.run("install", "docker.io=1").returncode == 3
    assert not (script.folder / packages.PLANNED).exists()


def test_a_broken_dpkg_stops_everything(script: Script) -> None:
    script.program("dpkg", "echo broken >&2; exit 2")
    done = script.run("install", "a=1")
    assert done.returncode == 2
    assert not script.log.exists()


def test_what_apt_cannot_meet_is_reported() -> None:
    output = (
        "Reading package lists...\nThe following packages have unmet dependencies:\n"
        " rival : Conflicts: docker.io\n         Depends:  x\nE: broken\n"
    )
    said = packages.unmet(output)
    assert said == "; apt could not meet: rival : Conflicts: docker.io; Depends: x"
    assert packages.unmet("Setting up\n") == ""
