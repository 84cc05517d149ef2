"""What nodes say of their packages, read from their answers; hostile ones too."""

from __future__ import annotations

import subprocess

import pytest

from appliance.adapters.ssh.packages import MOST_LINES, SCRIPT, parse
from tests.prerequisites import require

# dpkg-query ends each line with the third letter of the state, mostly a space.
PACKAGES = (
    "libc6 2.31-0ubuntu9 amd64 ii ",
    "libc6 2.31-0ubuntu9 i386 ii ",
    "tzdata 2024a all ii ",
    "docker.io 20.10.24 amd64 hi ",
    "gone 1.0 amd64 rc ",
    "half 1.0 amd64 iF ",
    "broken 1.0 amd64 iiR",
)
ANSWER = """architecture amd64
kernel 5.4.0-150-generic
boot 1f0e
asked
asked libc6
interrupted
device / 64769
device /boot 64770
device /usr 64769
free / 250 4096
free /boot 50 4096
free /usr 250 4096
kept 1700000000.5 /etc/ssh/sshd_config.ucf-dist
""" + "".join(f"package {line}\n" for line in PACKAGES)


def test_an_answer_is_read_whole() -> None:
    found = parse("w1", ANSWER)
    assert (found.node, found.kernel, found.boot) == ("w1", "5.4.0-150-generic", "1f0e")
    assert found.packages == {"libc6": "2.31-0ubuntu9", "tzdata": "2024a", "docker.io": "20.10.24"}
    assert (found.held, found.foreign) == (frozenset({"docker.io"}), 1)
    assert (found.half, found.interrupted) == (("broken", "half"), True)
    assert (found.reboot_asked, found.reboot_for) == (True, ("libc6",))
    assert found.free_bytes == {"/": 1_024_000, "/boot": 204_800}
    assert found.kept_files == {"/etc/ssh/sshd_config.ucf-dist": "1700000000.5"}


def test_a_node_in_peace_says_only_what_is_there() -> None:
    quiet = "architecture amd64\nkernel 6.1\nboot x\npackage a 1 amd64 ii \n"
    found = parse("w1", quiet)
    assert (found.interrupted, found.reboot_asked, found.half, found.foreign) == (
        *(False, False, (), 0),
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no architecture"),
        ("architecture amd64\n", "no kernel"),
        ("architecture amd64\nkernel 5\nboot x\n", "no installed package"),
        (ANSWER + "package UPPER 1 amd64 ii \n", "a package without a name"),
        (ANSWER + "package\n", "a package without a name"),
        (ANSWER.replace("kernel 5.4.0-150-generic", "kernel \x1b[31m"), "no kernel"),
        ("x\n" * (MOST_LINES + 1), "more than 20000 lines"),
    ],
)
def test_what_is_no_answer_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse("w1", text)


def test_the_script_tells_of_this_machine() -> None:
    require("dpkg-query")
    done = subprocess.run(["sh", "-c", SCRIPT], check=True, capture_output=True, text=True)
    found = parse("here", done.stdout)
    status = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Version}", "dpkg"], check=True, capture_output=True, text=True
    )
    assert found.packages["dpkg"] == status.stdout
    assert found.free_bytes["/"] > 0
    assert found.boot
