"""Completion: what a shell is offered, how little is loaded for it, and the scripts themselves."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from appliance.adapters.local.hardware_models import hardware_names
from appliance.adapters.local.shipped import list_releases
from appliance.adapters.site.host_names import host_names
from appliance.cli.exits import run
from appliance.cli.help.completion import VARIABLE
from tests.prerequisites import require
from tests.site_cases import copy_of_good

Capture = pytest.CaptureFixture[str]
Offer = Callable[..., list[str]]
HEAVY = ("kubernetes", "paramiko", "ansible_runner", "sushy", "cryptography")
# The real command; it ends by naming what it loaded.
PROGRAM = (
    "import atexit, sys; from appliance.cli.exits import main; sys.argv = ['appliance'];"
    "atexit.register(lambda: print(*sys.modules, file=sys.stderr)); main()"
)


@pytest.fixture
def offer(tmp_path: Path) -> Offer:
    """What is offered for a line whose last word is being typed, at a site."""
    copy_of_good(tmp_path / "rack7")

    def offered(line: str, **environment: str) -> list[str]:
        words = shlex.split(line)
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path / "rack7",
            env={
                **{key: text for key, text in os.environ.items() if key[:10] != "APPLIANCE_"},
                **environment,
                VARIABLE: "bash_complete",
                "COMP_WORDS": line,
                "COMP_CWORD": str(len(words) - (not line.endswith(" "))),
            },
        )
        loaded = done.stderr.splitlines()
        assert len(loaded) == 1, f"completion says nothing else: {done.stderr}"
        assert [name for name in loaded[0].split() if name in HEAVY] == []
        return [row.partition(",")[2] for row in done.stdout.splitlines()]

    return offered


def test_the_nodes_are_those_of_the_site(tmp_path: Path) -> None:
    assert host_names(copy_of_good(tmp_path / "rack7")) == ("gpu1", "master1")


@pytest.mark.parametrize("text", ["", "[", "a: b", "all: {hosts: [a]}", "all: 1", "\0", "&a [*a]"])
def test_a_broken_site_completes_to_nothing(text: str, tmp_path: Path) -> None:
    assert host_names(tmp_path) == ()
    (tmp_path / "hosts.yml").write_text(text)
    assert host_names(tmp_path) == ()


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("appliance kube", ["kubeconfig"]),
        ("appliance node ma", ["maintain"]),
        ("appliance node logs master", ["master1"]),
        ("appliance node maintain --mode ", ["taint", "cordon"]),
        ("appliance node role set gpu1 ", ["master1"]),
        ("appliance install --only runt", ["runtime"]),
        ("appliance install --nodes gpu1,", ["gpu1,master1"]),
        ("appliance node role set gpu1 --role ", ["system", "gpu", "cpu"]),
        ("appliance node add gpu1 --replace gpu1", ["gpu1"]),
        ("appliance site init x --os u", ["ubuntu-20.04"]),
        ("appliance docs planned", ["planned-maintenance"]),
        ("appliance docs 0060", ["0060-one-changing-command-at-a-time"]),
        ("appliance completion ", ["bash", "zsh", "fish"]),
        ("appliance --ver", ["--version"]),
    ],
)
def test_a_word_is_completed(offer: Offer, line: str, wanted: list[str]) -> None:
    assert offer(line) == wanted


def test_the_site_is_the_one_that_was_typed_or_exported(offer: Offer, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "hosts.yml").write_text("all: {children: {gpu_workers: {hosts: {elsewhere: }}}}\n")
    assert offer(f"appliance node ssh --site {other} ") == ["elsewhere"]
    assert offer("appliance node ssh ", APPLIANCE_SITE=str(other)) == ["elsewhere"]
    assert offer("appliance status --nodes ", APPLIANCE_SITE=str(tmp_path / "none")) == []


def test_releases_and_models_are_those_of_this_installation(offer: Offer) -> None:
    assert offer("appliance bundle build --release ") == list(list_releases())
    assert offer("appliance lab up --release ") == list(list_releases())
    assert offer("appliance hardware show ") == list(hardware_names())
    wanted = [f"a={name}" for name in hardware_names() if name.startswith("quanta/s")]
    assert offer("appliance site init x --hardware a=quanta/s") == wanted
    assert wanted


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_calls_this_program(shell: str, capsys: Capture) -> None:
    assert run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"{VARIABLE}={shell}_complete" in script
    assert "appliance" in script


def test_bash_takes_the_script_and_completes_with_it(tmp_path: Path, capsys: Capture) -> None:
    require("bash")
    assert run(["completion", "bash"]) == 0
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "appliance").write_text(f'#!/bin/sh\nexec {sys.executable} -m appliance "$@"\n')
    (programs / "appliance").chmod(0o755)
    script = (
        f"{capsys.readouterr().out}\n"
        "COMP_WORDS=(appliance insta); COMP_CWORD=1; _appliance_completion appliance insta\n"
        'echo "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
    )
    assert (done.stdout.split(), done.stderr) == (["install"], "")


def test_a_mistyped_shell_is_answered(capsys: Capture) -> None:
    assert run(["completion", "bsh"]) == 2
    assert "Did you mean 'bash'?" in capsys.readouterr().err
