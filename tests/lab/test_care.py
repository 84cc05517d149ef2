"""A lab's disks are cleaned up: etcd's alarm, images and bundles that nothing needs, and a kill."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from tests.commands import appliance, succeed
from tests.lab.conftest import LabSite, wait_for
from tests.lab.support.cluster import KUBECTL
from tests.lab.support.random_kills import killed_at_random

pytestmark = [pytest.mark.lab, pytest.mark.slow]

ETCD = (
    "curl --silent --cacert /etc/kubernetes/pki/etcd/ca.crt "
    "--cert /etc/kubernetes/pki/apiserver-etcd-client.crt "
    "--key /etc/kubernetes/pki/apiserver-etcd-client.key https://127.0.0.1:2379"
)
CRANE = (
    "SSL_CERT_FILE=/etc/appliance/ca.crt DOCKER_CONFIG=/etc/appliance/registry/login NO_PROXY='*' "
    "/var/lib/appliance/bundle/bin/crane"
)
STORE = "/var/lib/appliance/bundles"
MARKER = "/var/lib/appliance/bundle.verified"
READ_ONLY = "/run/systemd/system/docker-registry.service.d/appliance-clean.conf"
OLD = "pause:planted"
WRITE = f"{KUBECTL} -n default create configmap planted --from-literal=a=b"
FORGET = f"{KUBECTL} -n default delete configmap planted --ignore-not-found"
# Of one command, at random moments; so many have to hit a process that runs.
KILLS, HITS = 8, 2
LONGEST_SECONDS = 30.0


def cleanup(lab: LabSite, *words: str) -> dict[str, Any]:
    """What the command says of its items, and what it freed."""
    site = ("--site", str(lab.directory), "--output", "json")
    found: dict[str, Any] = json.loads(succeed("cluster", "cleanup", *site, *words).stdout)
    return found


def going(lab: LabSite, *words: str) -> list[str]:
    """What a dry run of the command would remove."""
    return [i["what"] for i in cleanup(lab, "--dry-run", *words)["items"] if i["goes"]]


def registry(lab: LabSite) -> str:
    """NAME:PORT of the lab's registry."""
    text = lab.shell("cp1", "cat /etc/appliance/registry/login/config.json")
    (name,) = json.loads(text)["auths"]
    return str(name)


def plant(lab: LabSite) -> str:
    """An image that only an earlier bundle lists, and that bundle; the digest of the bundle.

    A bundle of a release before stays as well, because one before the served one always does.
    """
    name = registry(lab)
    held = json.loads(lab.shell("cp1", "cat /var/lib/appliance/bundle/manifest.json"))["images"]
    (pause,) = [image for image in held if image.startswith("pause:")]
    layer = "head -c 3000000 /dev/urandom >/tmp/planted && tar -C /tmp -cf /tmp/planted.tar planted"
    append = (
        f"{CRANE} append --base {name}/{pause} --new_layer /tmp/planted.tar --new_tag {name}/{OLD}"
    )
    lab.shell("cp1", f"{layer} && {append}")
    digest = lab.shell("cp1", f"{CRANE} digest {name}/{OLD}").strip()
    # Old enough to belong to no push.
    lab.shell("cp1", "find /var/lib/docker-registry -exec touch -d '1 hour ago' {} +")
    lines = []
    for release, images in (
        ("planted-1", {OLD: digest}),
        (f"planted-2-{digest[-8:]}", {pause: held[pause]}),
    ):
        text = json.dumps({"release": release, "images": images, "files": []})
        name_of = hashlib.sha256(text.encode()).hexdigest()
        lab.shell(
            "cp1",
            f"mkdir -p {STORE}/{name_of} && printf %s '{text}' >{STORE}/{name_of}/manifest.json",
        )
        lines.append(name_of)
    told = f"printf '%s\\n' {' '.join(lines)} $(cat {MARKER}) >{MARKER}.new"
    lab.shell("cp1", f"{told} && mv {MARKER}.new {MARKER}")
    return lines[0]


def serves(lab: LabSite, image: str) -> bool:
    """Whether the registry has a manifest of this name."""
    return succeeds(lab, f"{CRANE} digest {registry(lab)}/{image}")


def succeeds(lab: LabSite, command: str) -> bool:
    """Whether a command succeeds on cp1."""
    return lab.shell("cp1", f"{command} >/dev/null 2>&1 && echo yes || echo no").strip() == "yes"


def raise_alarm(lab: LabSite) -> None:
    """Put the alarm NOSPACE in force: etcd takes no write until it is healed."""
    status = json.loads(lab.shell("cp1", f"{ETCD}/v3/maintenance/status -d '{{}}'"))
    alarm = {"action": "ACTIVATE", "memberID": status["header"]["member_id"], "alarm": "NOSPACE"}
    lab.shell("cp1", f"{ETCD}/v3/maintenance/alarm -d '{json.dumps(alarm)}'")
    assert not succeeds(lab, WRITE), "the alarm is in force"


def ended(lab: LabSite, *areas: str) -> None:
    """Type the same command until nothing is left; each time it succeeds."""
    until = time.monotonic() + 120
    while not cleanup(lab, "--yes", *areas)["done"] and going(lab, *areas):
        assert time.monotonic() < until
    assert going(lab, *areas) == []


def test_the_alarm_of_etcd_is_healed(installed_lab: LabSite) -> None:
    lab = installed_lab
    raise_alarm(lab)
    assert going(lab, "--only", "etcd") == ["free pages of etcd's database"]
    assert list(cleanup(lab, "--only", "etcd", "--yes")["freed"]) == ["etcd"]
    assert succeeds(lab, WRITE)
    lab.shell("cp1", FORGET)
    assert "cleanup: etcd" in succeed("history", "--site", str(lab.directory)).stdout


def test_the_care_of_etcd_is_killed_at_random_moments_and_the_same_command_ends_it(
    installed_lab: LabSite,
) -> None:
    """Each run has an alarm to heal, and the pages of deleted objects to give back."""
    lab = installed_lab
    filler = "yes x | head -c 200000 >/tmp/planted-large"
    large = f"{KUBECTL} -n default create configmap large --from-file=/tmp/planted-large"
    gone = f"{KUBECTL} -n default delete configmap large --ignore-not-found"

    def work() -> None:
        # A run that was killed may have left the alarm, and then nothing can be written.
        if succeeds(lab, f"{FORGET} && {filler} && {large} && {gone}"):
            raise_alarm(lab)

    words = ("cluster", "cleanup", "--yes", "--only", "etcd", "--site", str(lab.directory))
    found = killed_at_random(
        words, most=KILLS, longest=LONGEST_SECONDS, before_each=work, goes_on=False
    )
    print(f"care of etcd: {found.told()}")  # noqa: T201 - for the log
    assert len(found.at) >= HITS, found.told()
    ended(lab, "--only", "etcd")
    assert succeeds(lab, f"{FORGET}; {WRITE}"), "the alarm is healed"
    lab.shell("cp1", f"{FORGET}; rm -f /tmp/planted-large")
    assert appliance("health", "--site", str(lab.directory), "--stage", "cluster").returncode == 0


def test_killed_at_random_moments_of_a_cleanup_the_same_command_ends_it(
    installed_lab: LabSite,
) -> None:
    lab = installed_lab
    held = json.loads(lab.shell("cp1", "cat /var/lib/appliance/bundle/manifest.json"))["images"]
    areas = ("--only", "registry", "--only", "mirror", "--only", "images")
    words = ("cluster", "cleanup", "--yes", *areas, "--site", str(lab.directory))
    bundles: list[str] = []

    def work() -> None:
        # While a run that was killed left something, the registry may be read-only.
        if not going(lab, *areas) and not succeeds(lab, f"test -e {READ_ONLY}"):
            bundles.append(plant(lab))

    found = killed_at_random(
        words,
        most=KILLS,
        longest=LONGEST_SECONDS,
        before_each=work,
        goes_on=False,
    )
    print(f"clean-up: {found.told()}")  # noqa: T201 - for the log
    assert len(found.at) >= HITS, found.told()
    ended(lab, *areas)
    assert not serves(lab, OLD)
    for bundle in set(bundles):
        assert not succeeds(lab, f"test -e {STORE}/{bundle}/manifest.json")
    assert not succeeds(lab, f"test -e {READ_ONLY}")
    assert [image for image in held if not serves(lab, image)] == []
    assert appliance("health", "--site", str(lab.directory), "--stage", "cluster").returncode == 0


def test_what_only_an_earlier_bundle_lists_goes_although_it_was_killed(
    installed_lab: LabSite,
) -> None:
    lab = installed_lab
    bundle = plant(lab)
    areas = ("--only", "registry", "--only", "mirror", "--only", "images")
    assert OLD in going(lab, *areas)
    words = [sys.executable, "-m", "appliance", "cluster", "cleanup", "--yes", *areas]
    process = subprocess.Popen([*words, "--site", str(lab.directory)], stdout=subprocess.DEVNULL)
    try:
        wait_for("the first deletion", lambda: not serves(lab, OLD), 120)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(10)
    assert not serves(lab, OLD)
    ended(lab, *areas)
    assert not succeeds(lab, f"test -e {STORE}/{bundle}/manifest.json")
    assert not succeeds(lab, f"test -e {READ_ONLY}")
    held = json.loads(lab.shell("cp1", "cat /var/lib/appliance/bundle/manifest.json"))["images"]
    assert [image for image in held if not serves(lab, image)] == []
    assert appliance("health", "--site", str(lab.directory), "--stage", "cluster").returncode == 0
    name = registry(lab)
    lab.shell("cp1", f"{CRANE} copy {name}/{next(iter(held))} {name}/planted:again")
    digest = lab.shell("cp1", f"{CRANE} digest {name}/planted:again").strip()
    lab.shell("cp1", f"{CRANE} delete {name}/planted@{digest}")
