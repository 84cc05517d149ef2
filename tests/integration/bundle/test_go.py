"""Programs built by the real Go client from a wrapper module without dependencies."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.adapters.local import processes
from appliance.adapters.local.content import RELEASES, STANDINS
from appliance.builder.sources.go.programs import Go
from appliance.builder.sources.source import Context
from appliance.errors import SourceUnavailable
from appliance.model.bundle.release.release import Artifact
from appliance.model.bundle.release.sources import GoSource
from tests.prerequisites import require

MAIN = 'package main\n\nvar version = "unknown"\n\nfunc main() { print(version) }\n'


@pytest.fixture
def module(context: Context, monkeypatch: pytest.MonkeyPatch) -> Path:
    require("go")
    monkeypatch.setenv("GOPROXY", "off")
    folder = context.folder / "go/tool"
    folder.mkdir(parents=True)
    (folder / "go.mod").write_text("module example.test/tool\n\ngo 1.17\n")
    (folder / "go.sum").write_text("")
    (folder / "main.go").write_text(MAIN)
    return folder


def tool(**fields: object) -> tuple[Artifact, GoSource]:
    spec = GoSource.model_validate(
        {
            "kind": "go", "module": "tool", "package": "example.test/tool", "at": "v1.2.3",
            "ldflags": ["-X main.version=v1.2.3"], **fields,
        }
    )  # fmt: skip
    return Artifact(name="tool", kind="binary", version="1.2.3", sources=(spec,)), spec


def test_a_program_is_built_with_its_version_and_recalled(
    module: Path, context: Context, tmp_path: Path
) -> None:
    fetched = Go().fetch(*tool(), context)
    assert (fetched.kind, fetched.ref, fetched.verified) == (
        "go",
        "example.test/tool@v1.2.3",
        "gosum",
    )
    program = tmp_path / "program"
    context.cache.place(fetched.file.sha256, program, executable=True)
    done = subprocess.run([program], capture_output=True, text=True, check=True)
    assert done.stderr == "v1.2.3"
    (module / "README").write_text("no part of the recipe")
    assert Go().fetch(*tool(), context).file == fetched.file


def test_a_program_of_the_stand_ins_is_built_anew_when_its_source_changes(
    module: Path, context: Context, tmp_path: Path
) -> None:
    standins = tmp_path / "standins"
    folder = standins / "tool_standin/go"
    folder.parent.mkdir(parents=True)
    module.rename(folder)
    asked = tool(module="tool_standin/go")
    one = Go().fetch(*asked, replace(context, standins=standins))
    (folder / "main.go").write_text(MAIN.replace("unknown", "another").replace("print", "println"))
    two = Go().fetch(*asked, replace(context, standins=standins))
    assert one.file.sha256 != two.file.sha256


def test_other_flags_are_another_program(module: Path, context: Context) -> None:
    assert module.is_dir()
    one = Go().fetch(*tool(), context)
    two = Go().fetch(*tool(ldflags=["-X main.version=v2"]), context)
    assert one.file.sha256 != two.file.sha256


def test_a_program_that_does_not_compile_is_reported_and_its_log_kept(
    module: Path, context: Context
) -> None:
    (module / "main.go").write_text("package main\n\nfunc main() { nonsense() }\n")
    with pytest.raises(SourceUnavailable, match="could not be built") as caught:
        Go().fetch(*tool(), context)
    assert "nonsense" in caught.value.message
    assert caught.value.log_path is not None
    assert "nonsense" in caught.value.log_path.read_text()


def test_a_go_that_is_too_old_is_reported(module: Path, context: Context) -> None:
    assert module.is_dir()
    with pytest.raises(SourceUnavailable, match=r"expected Go 9\.9 or later"):
        Go().fetch(*tool(minimum_go="9.9"), context)


def test_a_host_without_go_is_reported(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "search_path", lambda: "/nowhere")
    with pytest.raises(SourceUnavailable, match="no Go toolchain"):
        Go().fetch(*tool(), context)


# Compiling client-go on a busy machine with two cores.
VET_SECONDS = 1800


@pytest.mark.bundle
@pytest.mark.parametrize("command", ["vet", "test"])
@pytest.mark.parametrize(
    "folder",
    [
        STANDINS / "nfs_provisioner_standin" / "go",
        *sorted(path.parent for path in RELEASES.glob("*/go/*/main.go")),
    ],
    ids=lambda folder: f"{folder.parent.name}-{folder.name}",
)
def test_a_program_of_ours_that_plays_anothers_part_is_sound(folder: Path, command: str) -> None:
    require("go")
    words = ["go", command, "-mod=readonly", "./..."]
    done = processes.run(words, cwd=folder, timeout=VET_SECONDS)
    assert done.returncode == 0
