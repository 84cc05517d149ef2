"""The table of programs is whole: whatever the code starts has a row, and every row is started."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from appliance.model.plan.steps import BY_NAME
from appliance.model.programs import PROGRAMS
from tests.contract.started_programs import (
    NO_PROGRAMS,
    OF_PYTHON,
    WORD,
    in_python,
    in_shell,
    in_tasks,
    on_control_host,
    python_files,
    words,
)
from tests.contract.tree import ROOT

# Ansible and the probe's own call name it by a setting of the site.
BY_SETTING = words("python3")
LAB_BOOT = ROOT / "appliance/lab/node/rootfs/usr/local/lib/appliance-lab/boot"


def _short(word: str) -> str:
    return word.rpartition("/")[2]


@functools.cache
def _started() -> frozenset[tuple[str, str]]:
    """(program, where it is started) in the whole product."""
    found = [(word, path) for path in python_files() for word in in_python(path)]
    found = [(word, path) for word, path in found if WORD.match(word)]
    found += [(word, path) for path in _task_files() for word, _local in in_tasks(path)]
    found += [(word, path) for path in (ROOT / "roles").rglob("*.j2") for word in _in_unit(path)]
    return frozenset(
        (_short(word), str(path.relative_to(ROOT)))
        for word, path in found
        if word not in NO_PROGRAMS | OF_PYTHON
    )


def _task_files() -> list[Path]:
    found = [path for top in ("playbooks", "roles") for path in (ROOT / top).rglob("*.yml")]
    return [path for path in found if path.parent.name in {"tasks", "handlers", "playbooks"}]


def _in_unit(path: Path) -> Iterator[str]:
    for line in re.findall(r"(?m)^Exec\w+=[-@+!]*(.+)$", path.read_text("utf-8")):
        yield str(re.sub(r"\{\{.*?\}\}", "", line).split()[0])


def _without_row(known: Collection[str]) -> list[str]:
    return sorted(f"{word}: started in {where}" for word, where in _started() if word not in known)


def test_every_program_that_is_started_has_a_row() -> None:
    assert _without_row({row.name for row in PROGRAMS}) == []


def test_every_row_is_started_somewhere() -> None:
    started = BY_SETTING | {word for word, _where in _started()}
    assert {row.name for row in PROGRAMS} <= started | {
        row.name for row in PROGRAMS if row.started_by in started
    }


def test_what_the_control_host_starts_has_a_row_there() -> None:
    assert {"rsync", "ssh", "go", "podman", "mmdebstrap"} <= on_control_host()
    assert on_control_host() <= {row.name for row in PROGRAMS if row.uses}


def test_a_row_that_is_taken_out_is_missed() -> None:
    """Of every program that we start ourselves, one after the other."""
    names = {row.name for row in PROGRAMS}
    for name in sorted(names & {word for word, _where in _started()}):
        assert _without_row(names - {name})[0].startswith(f"{name}: started in ")


def test_a_task_starts_what_the_machine_that_it_runs_on_has_a_row_for() -> None:
    here = {row.name for row in PROGRAMS if row.uses}
    there = {row.name for row in PROGRAMS if row.where}
    for path in _task_files():
        for word, local in in_tasks(path):
            assert _short(word) in (here if local else there), f"{path}: {word}, local: {local}"


def test_the_boot_of_a_labs_node_starts_what_its_image_brings() -> None:
    rows = {row.name for row in PROGRAMS if row.where}
    started = set(in_shell(LAB_BOOT.read_text("utf-8")))
    assert "sed" in started
    assert started <= rows | {"dpkg-divert", "ssh-keygen"}


def test_rows_name_steps_that_there_are_and_one_kind_of_machine() -> None:
    for row in PROGRAMS:
        assert row.where is None or row.since in {*BY_NAME, "look"}, row.name
        assert row.brought_by in {*BY_NAME, ""}, row.name
        assert bool(row.uses) != (row.where is not None), row.name
        assert row.packages or row.brought_by, row.name


def test_scripts_are_read_as_a_shell_reads_them() -> None:
    script = 'f=$(mktemp) && [ -e "$f" ] || exit 1\nfor x in $l; do sudo -n cat "$(find .)"; done'
    assert set(in_shell(script)) == {"mktemp", "sudo", "find"}
    assert list(in_shell("case $x in a|b) go build ;; *) true ;; esac # rm -rf")) == ["go"]
    assert list(in_shell("put() { printf x; }; put | xargs -n 1 podman")) == ["xargs"]
