"""runai-adm is run when something it depends on is another, and what it wrote is for root."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.unit.modules.loading import load

runai_values = load("runai_values")


class FakeJob:
    """A runai-adm that writes a file, or does not."""

    writes = True
    code = 0
    runs: list[list[str]]
    folders: list[str]

    def __init__(self, *_arguments: object, **_named: object) -> None: ...

    def run(
        self, command: list[str], environment: dict[str, str], directory: str, deadline_seconds: int
    ) -> tuple[dict[str, Any], bool]:
        assert deadline_seconds == 9
        assert environment == {"REGISTRY_URL": "r:5000"}
        self.runs.append(command)
        self.folders.append(directory)
        if self.writes:
            (Path(directory) / "values.yaml").write_text("a: 1\n")
        told = {
            "job": "runai-adm",
            "rc": self.code,
            "stdout": "said this\n",
            "stderr": "",
            "command": command,
        }
        return told, False


@pytest.fixture(autouse=True)
def _stamps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runai_values, "STAMPS", str(tmp_path / "stamps"))


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> type[FakeJob]:
    made = type("Job", (FakeJob,), {"runs": [], "folders": []})
    monkeypatch.setattr(runai_values, "NodeJob", made)
    return made


@pytest.fixture
def want(tmp_path: Path) -> dict[str, Any]:
    content = b"#!/bin/sh\n"
    archive = tmp_path / "cli.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        entry = tarfile.TarInfo("bin/runai-adm")
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
    for folder in ("deploy", "bin"):
        (tmp_path / folder).mkdir()
    certificate = tmp_path / "tls.crt"
    certificate.write_text("one")
    return {
        "program": str(archive),
        "arguments": ["generate-values", "--domain", "x"],
        "inputs": [str(certificate)],
        "environment": {"REGISTRY_URL": "r:5000"},
        "run_in": str(tmp_path / "deploy"),
        "install": str(tmp_path / "bin/runai-adm"),
        "directory": str(tmp_path / "runai"),
        "output": "values.yaml",
        "deadline_seconds": 9,
    }


def test_it_is_run_once(job: type[FakeJob], want: dict[str, Any]) -> None:
    assert runai_values.generate(want, None) is True
    assert runai_values.generate(want, None) is False
    (command,) = job.runs
    directory = Path(want["directory"])
    assert command == [want["install"], *want["arguments"]]
    assert Path(want["install"]).read_bytes() == b"#!/bin/sh\n"
    assert Path(want["install"]).stat().st_mode & 0o777 == 0o755
    assert job.folders == [want["run_in"]]
    assert not (Path(want["run_in"]) / "values.yaml").exists(), "it holds the certificate's key"
    assert directory.stat().st_mode & 0o077 == 0
    assert (directory / "values.yaml").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("what", ["arguments", "input", "program", "output gone"])
def test_it_is_run_again_when_something_is_another(
    job: type[FakeJob], want: dict[str, Any], what: str
) -> None:
    runai_values.generate(want, None)
    if what == "arguments":
        want["arguments"] = ["generate-values", "--domain", "y"]
    elif what == "input":
        Path(want["inputs"][0]).write_text("two")
    elif what == "program":
        Path(want["program"]).write_bytes(b"#!/bin/sh\n# newer, and no archive\n")
    else:
        (Path(want["directory"]) / "values.yaml").unlink()
    assert runai_values.generate(want, None) is True
    assert len(job.runs) == 2


@pytest.mark.parametrize("what", ["removed", "not executable", "of another bundle"])
def test_the_program_that_people_use_is_put_back_without_a_run(
    job: type[FakeJob], want: dict[str, Any], what: str
) -> None:
    runai_values.generate(want, None)
    program = Path(want["install"])
    if what == "removed":
        program.unlink()
    elif what == "not executable":
        program.chmod(0o644)
    else:
        runai_values.stamp_of(program).write_text("of another")
    assert runai_values.generate(want, None) is True
    assert program.stat().st_mode & 0o777 == 0o755
    assert len(job.runs) == 1


@pytest.mark.parametrize("what", ["before the first run", "over ours", "a link to nowhere"])
def test_a_program_of_somebody_else_is_kept_and_not_run(
    job: type[FakeJob], want: dict[str, Any], what: str
) -> None:
    program = Path(want["install"])
    if what == "over ours":
        runai_values.generate(want, None)
    if what == "a link to nowhere":
        program.symlink_to("nowhere")
    else:
        program.write_bytes(b"theirs")
    program.parent.joinpath("runai-adm.before-appliance-1").write_bytes(b"of earlier")
    assert runai_values.generate(want, None) is True
    assert program.read_bytes() == b"#!/bin/sh\n"
    kept = program.parent / "runai-adm.before-appliance-2"
    assert kept.is_symlink() if what == "a link to nowhere" else kept.read_bytes() == b"theirs"
    assert len(job.runs) == 1
    assert runai_values.generate(want, None) is False


@pytest.mark.usefixtures("job")
def test_a_note_of_an_earlier_release_is_one_of_ours(want: dict[str, Any]) -> None:
    runai_values.generate(want, None)
    program = Path(want["install"])
    runai_values.stamp_of(program).write_text(runai_values.sha256(Path(want["program"])))
    assert runai_values.generate(want, None) is True
    assert [path.name for path in program.parent.iterdir()] == ["runai-adm"]


def test_values_of_a_run_that_was_cut_off_are_not_taken_for_those_of_this_one(
    job: type[FakeJob], want: dict[str, Any]
) -> None:
    (Path(want["run_in"]) / "values.yaml").write_text("of yesterday")
    job.writes = False
    with pytest.raises(runai_values.ValuesError, match=r"wrote no values\.yaml"):
        runai_values.generate(want, None)


def test_one_that_failed_is_run_again(job: type[FakeJob], want: dict[str, Any]) -> None:
    job.code = 3
    with pytest.raises(runai_values.ValuesError, match="said this"):
        runai_values.generate(want, None)
    job.code = 0
    assert runai_values.generate(want, None) is True


def test_one_that_writes_nothing_is_reported(job: type[FakeJob], want: dict[str, Any]) -> None:
    job.writes = False
    with pytest.raises(runai_values.ValuesError, match=r"wrote no values.yaml: said this"):
        runai_values.generate(want, None)


def test_an_archive_without_it_is_reported(want: dict[str, Any], tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "empty.tar", "w"):
        pass
    want["program"] = str(tmp_path / "empty.tar")
    with pytest.raises(runai_values.ValuesError, match="does not contain runai-adm"):
        runai_values.generate(want, None)
