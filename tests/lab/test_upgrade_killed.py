"""An upgrade through two releases is killed at twelve random moments, wherever it is just then.

The API server has flags of a person that site.yml carries: they are there at the end.
``APPLIANCE_TEST_SEED`` chooses other moments.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.commands import succeed
from tests.lab.conftest import LabSite, installed_as, wait_for
from tests.lab.support.api_probe import api_watched
from tests.lab.support.issuer import settings_file
from tests.lab.support.service_probe import asking
from tests.lab.support.skew import KUBECTL, skew_is_allowed
from tests.lab.support.upgrading import (
    LAST,
    LAST_TAG,
    SECONDS,
    cordoned,
    last_bundle,
    load_now,
    new_bundle,
    runtimes,
    settings,
    to_last,
    versions,
)

__all__ = ["last_bundle", "new_bundle"]

pytestmark = [pytest.mark.lab, pytest.mark.slow]

KILLS = 12
# About as long as the longest step takes on an idle machine; a release takes twice as long or more.
LONGEST_SECONDS = 80.0
MANIFEST = "/etc/kubernetes/manifests/kube-apiserver.yaml"


@pytest.fixture(scope="module")
def first_lab(
    tmp_path_factory: pytest.TempPathFactory, bundle_directory: Path
) -> Iterator[LabSite]:
    """One control plane and two workers on the first release."""
    with installed_as("kil", tmp_path_factory.mktemp("labs"), bundle_directory) as lab:
        yield lab


def flags(lab: LabSite) -> list[str]:
    """The flags that a person wrote, which site.yml holds as well."""
    domain = yaml.safe_load(settings_file(lab).read_text())["domain"]
    issuer = f"https://runai.{domain}/auth/realms/runai"
    return ["--oidc-client-id=runai", f"--oidc-issuer-url={issuer}"]


def running_flags(lab: LabSite) -> list[str]:
    """The OIDC flags with which the API server runs."""
    words = f"{KUBECTL} -n kube-system get pod -l component=kube-apiserver -o yaml 2>/dev/null"
    lines = (line.strip() for line in lab.shell("cp1", words, check=False).splitlines())
    return sorted({line.removeprefix("- ") for line in lines if line.startswith("- --oidc-")})


def wait_for_second(lab: LabSite, process: subprocess.Popen[bytes]) -> None:
    """Wait until kubeadm of the second release is at work, or the command has ended."""
    words = f"pgrep -f '[k]ubeadm.* upgrade apply.*{LAST_TAG}' || true"
    wait_for(
        "kubeadm of the second release",
        lambda: bool(lab.shell("cp1", words, check=False)) or process.poll() is not None,
        SECONDS,
    )


@pytest.fixture(scope="module")
def edited_lab(first_lab: LabSite) -> LabSite:
    """Its API server has flags that were written into its manifest alone, and into site.yml."""
    lines = "".join(f"    - {flag}\\n" for flag in flags(first_lab))
    edit = f"sed 's|^    - --secure-port|{lines}&|' {MANIFEST}"
    first_lab.shell(
        "cp1", f"{edit} > /etc/kubernetes/edited && mv /etc/kubernetes/edited {MANIFEST}"
    )
    wait_for("the API server's flags", lambda: running_flags(first_lab) == flags(first_lab))
    path = settings_file(first_lab)
    site: dict[str, Any] = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**site, "runai": {"access": {"enabled": True}}}))
    return first_lab


def test_killed_at_twelve_random_moments_the_same_command_ends_both_releases(
    edited_lab: LabSite,
    new_bundle: Path,
    last_bundle: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Six times on the way to the first release, and six times on the way to the second."""
    lab, output = edited_lab, tmp_path / "output.log"
    program = Path(sys.executable).with_name("appliance")
    seed = int(os.environ.get("APPLIANCE_TEST_SEED", "17"))
    dice = random.Random(seed)  # noqa: S311
    endpoint = settings(lab)["control_plane_endpoint"]["name"]
    said: list[str] = []
    minors: set[int] = set()
    with asking(lab) as asked, api_watched(lab.node("w1"), endpoint, 6443) as watched:
        for number in range(KILLS):
            with output.open("w") as out:
                process = subprocess.Popen(
                    [program, *to_last(lab, new_bundle, last_bundle), "--yes"],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                )
                if number == KILLS // 2:
                    wait_for_second(lab, process)
                moment = dice.uniform(5, LONGEST_SECONDS)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(moment)
                process.send_signal(signal.SIGKILL)
                process.wait()
            text = output.read_text()
            assert process.returncode == -signal.SIGKILL, f"{number} kills, then: {text[-2000:]}"
            found = sorted(set(skew_is_allowed(lab).values()))
            minors.update(found)
            lines = [line for line in text.splitlines() if line.strip()]
            said.append(f"{moment:5.1f} s: {lines[-1] if lines else ''}; minors {found}")
        succeed(*to_last(lab, new_bundle, last_bundle), "--yes", timeout=2 * SECONDS)
        skew_is_allowed(lab)
    with capsys.disabled():
        print(  # noqa: T201 - a figure of the release
            f"\ntwo releases, {KILLS} kills (seed {seed}, load {load_now()}); "
            f"requests {asked.total}, lost {len(asked.lost)}; "
            f"longest time without API {watched.gap:.0f} s"
        )
        print("\n".join(said))  # noqa: T201 - where it was killed
    assert asked.lost == []
    assert len(minors) == 2, "two minor versions were never beside each other: nothing was judged"
    assert set(versions(lab).values()) == {LAST_TAG}
    assert all(one.startswith("containerd://") for one in runtimes(lab).values())
    assert cordoned(lab) == []


def test_the_flags_of_a_person_are_there_after_both_releases(edited_lab: LabSite) -> None:
    assert running_flags(edited_lab) == flags(edited_lab)
    configuration = edited_lab.shell(
        "cp1", f"{KUBECTL} -n kube-system get cm kubeadm-config -o yaml"
    )
    assert "oidc-client-id: runai" in configuration


def test_afterwards_there_is_nothing_to_do(edited_lab: LabSite, last_bundle: Path) -> None:
    done = succeed(*to_last(edited_lab, last_bundle), "--yes")
    assert f"nothing to do: every node runs {LAST}" in done.stdout
