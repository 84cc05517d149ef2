"""One changing command at a time, and a site that goes from one laptop to another.

The other laptop is a copy of the site's directory without its state, under another host name, with
process ids of its own: nothing of this machine's processes is known there.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest

from appliance.adapters.ansible.play_processes import end_leftovers
from appliance.model.control.lock import Holder
from tests.commands import succeed
from tests.lab.conftest import lab_up, wait_for
from tests.lab.support.frozen import FROZEN_SECONDS, frozen
from tests.this_run import lab_name

pytestmark = pytest.mark.lab

MASTERS = tuple(f"{lab_name('lok')}-cp{n}" for n in (1, 2, 3))
FOLDER = "/var/lib/appliance/lock"
SETTINGS = "/etc/sysctl.d/90-appliance.conf"
HOST = "standin-desk"


def inside(node: str, command: str, stdin: str = "") -> str:
    """Run a shell command as root inside a node, past SSH."""
    done = subprocess.run(
        ["podman", "exec", "--interactive", node, "sh", "-c", command],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout.strip()


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    said: str


@dataclass(frozen=True)
class Laptop:
    """A machine of an engineer: a copy of the site's directory, and how commands start there."""

    site: Path
    bundle: Path
    before: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()

    def start(self, *words: str, said: IO[str]) -> subprocess.Popen[str]:
        """Start a command of the site."""
        return subprocess.Popen(
            [*self.before, sys.executable, "-m", "appliance", *words, "--site", str(self.site)],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **dict(self.environment)},
        )

    def run(self, *words: str) -> Ended:
        """Run it to its end."""
        with tempfile.TemporaryFile("w+") as said:
            code = self.start(*words, said=said).wait(300)
            said.seek(0)
            return Ended(code, said.read())

    def install_words(self) -> tuple[str, ...]:
        """A command that changes something after :func:`drift`."""
        return ("install", "--only", "host", "--bundle", str(self.bundle), "--yes")

    def install(self) -> Ended:
        """The same, to its end."""
        return self.run(*self.install_words())

    def playing(self) -> Callable[[], bool]:
        """Whether a play of a run that begins from now on has shown an event."""
        runs = self.site / ".appliance" / "runs"
        before = set(runs.glob("*"))
        return lambda: any(
            next(run.glob("host/artifacts/*/job_events/*"), None)
            for run in set(runs.glob("*")) - before
        )

    @contextmanager
    def at_work(self) -> Iterator[subprocess.Popen[str]]:
        """The same, while it holds the site and a play runs; killed at the end, if it runs."""
        playing = self.playing()
        with tempfile.TemporaryFile("w+") as said:
            process = self.start(*self.install_words(), said=said)
            try:
                wait_for("a play", lambda: process.poll() is not None or playing(), 120)
                said.seek(0)
                assert process.poll() is None, said.read()
                # The play is short: it would end, and the lock with it, while nodes are asked.
                with frozen(process):
                    assert holders() == 3
                yield process
            finally:
                process.kill()
                process.wait()

    def dies_at_work(self) -> None:
        """SIGKILL of the command and of what it started, as when a machine loses its power.

        What it had begun on the nodes has ended by then.
        """
        with self.at_work() as process:
            process.send_signal(signal.SIGKILL)
        end_leftovers(self.site)
        wait_for("the modules on the nodes to end", no_module_runs, 60)

    def written(self) -> int:
        """How many records lie on this laptop."""
        return len(list((self.site / ".appliance" / "journal").glob("*.json")))

    def records(self) -> list[dict[str, Any]]:
        """``appliance history`` as data."""
        done = succeed("history", "--site", str(self.site), "--output", "json")
        found: list[dict[str, Any]] = json.loads(done.stdout)
        return found


def ended(process: subprocess.Popen[str]) -> bool:
    """Whether a command has ended."""
    return process.poll() is not None


def drift() -> None:
    """The nodes' settings were lost: enough for a step to be due."""
    for node in MASTERS:
        inside(node, f"rm -f {SETTINGS}")


def no_module_runs() -> bool:
    """Whether nothing of a play runs on a node: a module outlives the play that was killed."""
    find = "pgrep -f '[B]ECOME-SUCCESS' || true"
    return not any(inside(node, find) for node in MASTERS)


def converged() -> bool:
    """Whether they are there again."""
    return all(inside(node, f"ls {SETTINGS} 2>/dev/null || true") for node in MASTERS)


def holders() -> int:
    """How many nodes hold a lock."""
    return sum(inside(node, f"ls {FOLDER} 2>/dev/null || true").count("holder") for node in MASTERS)


def plant(holder: Holder) -> None:
    """The lock of somebody, renewed at this moment."""
    stamp = "read b </proc/sys/kernel/random/boot_id; read u r </proc/uptime"
    for node in MASTERS:
        script = f'mkdir -p {FOLDER}; cd {FOLDER}; cat >holder; {stamp}; echo "$b $u" >beat'
        inside(node, script, stdin=holder.as_line())


def age() -> None:
    """What holds the lock was renewed last when the nodes had just started."""
    for node in MASTERS:
        inside(node, f'read b r <{FOLDER}/beat; echo "$b 0.0" >{FOLDER}/beat')


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory, bundle_directory: Path) -> Iterator[Laptop]:
    """This laptop, and three bare control-plane nodes."""
    given = os.environ.get("APPLIANCE_TEST_SITE")
    if given:
        yield Laptop(Path(given), bundle_directory)
        return
    words = ("--control-planes", "3", "--workers", "0")
    with lab_up("lok", tmp_path_factory.mktemp("labs"), *words) as site:
        yield Laptop(site, bundle_directory)


@pytest.fixture(scope="module")
def theirs(mine: Laptop, tmp_path_factory: pytest.TempPathFactory) -> Laptop:
    """Another laptop; its engineer has a key that the nodes know, and the vault's password."""
    site = tmp_path_factory.mktemp("desk") / mine.site.name
    shutil.copytree(mine.site, site, ignore=shutil.ignore_patterns(".appliance"))
    assert not (site / ".appliance").exists()
    home = tmp_path_factory.mktemp("home")
    password = mine.site / ".appliance" / "vault-password"
    environment = [("HOME", str(home)), ("USER", "bob")]
    if password.exists():
        environment.append(("ANSIBLE_VAULT_PASSWORD_FILE", str(password)))
    apart = ("unshare", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c")
    before = (*apart, f'hostname {HOST}; exec "$@"', "sh")
    return Laptop(site, mine.bundle, before, tuple(environment))


def test_of_two_at_once_exactly_one_proceeds(mine: Laptop, theirs: Laptop) -> None:
    drift()
    before = [one.written() for one in (mine, theirs)]
    playing = [one.playing() for one in (mine, theirs)]
    with tempfile.TemporaryFile("w+") as here, tempfile.TemporaryFile("w+") as there:
        first = mine.start(*mine.install_words(), said=here)
        second = theirs.start(*theirs.install_words(), said=there)
        both = (first, second)
        try:
            wait_for("a play", lambda: any(x() for x in playing) or any(ended(x) for x in both))
            # Who asks when the winner has ended is told another thing, or has nothing to do.
            for winner, loser, plays in zip(both, both[::-1], playing, strict=True):
                if plays() and not ended(loser):
                    with frozen(winner):
                        loser.wait(FROZEN_SECONDS)
            codes = [first.wait(300), second.wait(300)]
        finally:
            for process in both:
                process.kill()
                process.wait()
        here.seek(0)
        there.seek(0)
        said = [here.read(), there.read()]
    assert sorted(codes) == [0, 3], said
    refused = said[codes.index(3)]
    assert "error: another command is at work on this site: install by " in refused
    host = os.uname().nodename if codes[1] == 3 else HOST
    assert f" on {host} since 20" in refused
    ran = [one.written() - old for one, old in zip((mine, theirs), before, strict=True)]
    assert ran[codes.index(3)] == 0
    assert ran[codes.index(0)] == 1
    assert converged()
    assert holders() == 0


def test_who_has_nothing_to_do_or_only_looks_takes_nothing(mine: Laptop) -> None:
    plant(Holder("other", "node maintain", "bob", HOST, "a DIMM", "T"))
    try:
        done = mine.install()
        assert done.code == 0
        assert "nothing to do" in done.said
        assert mine.run("status").code == 0
    finally:
        for node in MASTERS:
            inside(node, f"rm {FOLDER}/holder {FOLDER}/beat")


def test_a_young_lock_refuses_and_a_stale_one_is_taken_over(mine: Laptop) -> None:
    drift()
    plant(Holder("other", "node maintain", "bob", HOST, "a DIMM", "T"))
    refused = mine.install()
    assert refused.code == 3, refused.said
    who = f"node maintain (a DIMM) by bob on {HOST} since T"
    assert f"error: another command is at work on this site: {who}" in refused.said
    assert not converged()
    age()
    done = mine.install()
    assert done.code == 0, done.said
    assert f"note: took over the lock of {who}" in done.said
    assert f"took over the lock of {who}" in mine.records()[-1]["why"]
    assert converged()
    assert holders() == 0


def test_the_machine_of_a_killed_command_goes_on_at_once(mine: Laptop, theirs: Laptop) -> None:
    drift()
    mine.dies_at_work()
    drift()
    elsewhere = theirs.install()
    assert elsewhere.code == 3, elsewhere.said
    assert f" on {os.uname().nodename} since " in elsewhere.said
    began = time.monotonic()
    done = mine.install()
    took = time.monotonic() - began
    assert done.code == 0, done.said
    assert "note: took over the lock of install by" in done.said
    assert converged()
    print(f"after a kill, the same command: {took:.1f} s")  # noqa: T201 - a figure for the log


def test_ctrl_c_gives_the_lock_back(mine: Laptop) -> None:
    drift()
    with mine.at_work() as process:
        process.send_signal(signal.SIGINT)
        assert process.wait(90) == 130
    assert holders() == 0
    wait_for("the modules on the nodes to end", no_module_runs, 60)


def test_another_laptop_adopts_what_was_half_finished_and_ends_it(
    mine: Laptop, theirs: Laptop
) -> None:
    drift()
    mine.dies_at_work()
    drift()
    done = theirs.run("site", "adopt")
    assert done.code == 0, done.said
    here = os.uname().nodename
    assert "running:    install by" in done.said
    age()
    done = theirs.run("site", "adopt")
    assert "unfinished: install by" in done.said
    assert f" on {here} since " in done.said
    assert f"next:       appliance install --only host --site {theirs.site}" in done.said
    again = theirs.install()
    assert again.code == 0, again.said
    assert converged()
    wait_for("both in the history", lambda: {here, HOST} <= {r["host"] for r in theirs.records()})
    assert mine.run("site", "adopt").code == 0
    assert mine.records() == theirs.records()
    assert mine.records()[-1]["host"] == HOST
    assert "unfinished: nothing" in mine.run("site", "adopt").said
