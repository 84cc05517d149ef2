"""A lab is installed, taken apart, compared with what it was before, and installed again."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import appliance, succeed
from tests.lab.conftest import LabSite, lab_up
from tests.lab.support.random_kills import killed_at_random
from tests.lab.support.runbook import Runbook

pytestmark = [pytest.mark.lab, pytest.mark.slow]

PAGE = Runbook("reset-an-appliance")
SHORT = ("cp1", "w1")
# At random moments; so many have to hit a process that runs.
KILLS, HITS = 6, 2
LONGEST_SECONDS = 60.0
# What a distribution's packages leave after a purge, and what only a boot or a log changes.
NAMED = (
    *("/etc/.pwd.lock", "/etc/ld.so.cache", "/etc/apparmor.d", "/etc/mtab"),
    *("/etc/group", "/etc/gshadow", "/etc/passwd", "/etc/shadow", "/etc/subgid", "/etc/subuid"),
    *("/etc/group-", "/etc/gshadow-", "/etc/passwd-", "/etc/shadow-", "/etc/subgid-"),
    *("/etc/fstab.appliance-", "/etc/hosts.appliance-", "/etc/resolv.conf", "/etc/rc"),
    "/etc/subuid-",
)
# The answers of a node, one text each; what differs by itself is left out.
DIGEST = {
    "packages": "dpkg-query -W -f '${Package} ${Version} ${db:Status-Abbrev}\\n' | grep -v ' rc '",
    "files": "find /etc /opt /srv /usr/local /var/lib/appliance /var/lib/etcd /var/lib/kubelet "
    "-xdev '(' -type f -exec sha256sum {} + ')' -o '(' -type l -printf '%l  %p\\n' ')' "
    "2>/dev/null | sort -k2",
    "units": "systemctl list-unit-files --no-legend --plain | awk '{print $1, $2}' | sort",
    "running": "systemctl list-units --type=service --state=running --no-legend --plain "
    "| awk '{print $1}' | sort",
    "mounts": "awk '$2 !~ \"^/run/user/\" {print $2, $3}' /proc/mounts | sort",
    "links": "ls /sys/class/net | sort",
    "rules": "iptables-save 2>/dev/null | grep -E '^(-A|:[A-Z]+-)' | sort",
}


def digest(lab: LabSite, short: str) -> dict[str, list[str]]:
    """Everything of a node that a reset has to give back."""
    found = {name: lab.shell(short, how, check=False).splitlines() for name, how in DIGEST.items()}
    found["files"] = [
        line for line in found["files"] if not line.split("  ", 1)[-1].startswith(NAMED)
    ]
    found["units"] = [line for line in found["units"] if not line.startswith("session-")]
    found["running"] = [
        line for line in found["running"] if not re.match(r"(user@|session-)", line)
    ]
    return found


def differences(before: dict[str, list[str]], after: dict[str, list[str]]) -> list[str]:
    """One line for each thing that came or went."""
    return [
        f"{kind}: {sign} {line}"
        for kind, lines in before.items()
        for sign, some in (
            ("gone", sorted(set(lines) - set(after[kind]))),
            ("new", sorted(set(after[kind]) - set(lines))),
        )
        for line in some
    ]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, bundle_directory: Path) -> Iterator[LabSite]:
    with lab_up("reset", tmp_path_factory.mktemp("reset"), "--workers", "1") as directory:
        yield LabSite(directory.name, directory, bundle_directory)


@pytest.fixture(scope="module")
def before(site: LabSite) -> dict[str, dict[str, list[str]]]:
    """The nodes as they were before anything was installed."""
    found = {short: digest(site, short) for short in SHORT}
    done = site.install(timeout=1800)
    assert done.returncode == 0, done.stderr
    return found


def words(lab: LabSite, *more: str) -> list[str]:
    page = PAGE.words("appliance reset --site SITE", {"SITE": str(lab.directory)})
    return [*page, "--wipe", lab.name, "--yes", *more]


def test_a_reset_that_is_killed_at_random_moments_and_ended_leaves_bare_nodes(
    site: LabSite, before: dict[str, dict[str, list[str]]]
) -> None:
    values = {"SITE": str(site.directory)}
    shown = succeed(*PAGE.words("appliance reset --site SITE --dry-run", values)).stdout
    for short in SHORT:
        assert f"{site.node(short)} (serial STANDIN-{site.node(short)}): is reset" in shown
    found = killed_at_random(words(site, "--lose-data"), most=KILLS, longest=LONGEST_SECONDS)
    print(f"reset: {found.told()}")  # noqa: T201 - for the log
    assert len(found.at) >= HITS, found.told()
    began = time.monotonic()
    done = appliance(*words(site, "--lose-data"), timeout=900)
    assert done.returncode == 0, done.stderr
    print(f"reset: {time.monotonic() - began:.1f} s\n{done.stdout}")  # noqa: T201 - for the log
    for short in SHORT:
        assert differences(before[short], digest(site, short)) == []
    assert "nothing to do" in succeed(*words(site)).stdout
    assert not (site.directory / ".appliance/kubeconfig").exists()


def test_an_install_afterwards_works_as_the_first_one(
    site: LabSite, before: dict[str, dict[str, list[str]]]
) -> None:
    assert before
    values = {"SITE": str(site.directory), "/media/bundle": str(site.bundle)}
    page = PAGE.words("appliance install --site SITE --bundle /media/bundle", values)
    done = appliance(*page, "--yes", timeout=1800)
    assert done.returncode == 0, done.stderr
    assert site.settled()["unmet"] == []
    steps = [record["step"] for record in site.records()]
    assert steps.count("reset") >= 1, "the journal of before is kept"
