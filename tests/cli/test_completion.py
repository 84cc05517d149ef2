"""Completion: what a shell is offered, how little is loaded for it, and the scripts themselves."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
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


@pytest.mark.parametrize("begin", ["[", "{a: ", "- ", "? "])
def test_a_file_that_is_far_too_deep_ends_no_shell(begin: str, tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text(begin * 200_000)
    code = "import sys, pathlib; from appliance.adapters.site.host_names import host_names as h"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; print(h(pathlib.Path(sys.argv[1])))", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "()\n")


def test_a_pipe_in_place_of_the_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "hosts.yml")
    assert host_names(tmp_path) == ()


def test_what_would_run_in_a_shell_is_no_name(tmp_path: Path) -> None:
    names = ["$(touch x)", "`id`", "*", "-x", "a b", "a\nb", "a;b", "gpu1", "é", "x" * 64]
    hosts = dict.fromkeys(names)
    (tmp_path / "hosts.yml").write_text(json.dumps({"all": {"hosts": hosts}}))
    assert host_names(tmp_path) == ("gpu1",)


def test_groups_that_aliases_repeat_are_read_once(tmp_path: Path) -> None:
    folds = "".join(
        f"a{i}: &a{i} {{children: {{{', '.join(f'k{j}: *a{i - 1}' for j in range(40))}}}}}\n"
        for i in range(1, 7)
    )
    (tmp_path / "hosts.yml").write_text(f"a0: &a0 {{hosts: {{x: }}}}\n{folds}")
    began = time.process_time()
    assert host_names(tmp_path) == ("x",)
    assert time.process_time() - began < 2


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
