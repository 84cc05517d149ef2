"""``appliance bundle``: exit codes, words, and JSON keys."""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path

import click
import pytest
import yaml

from appliance.adapters.local.cache import Cache
from appliance.builder.build import BuildPorts, BuildResult, build_bundle
from appliance.builder.fetch import Sources
from appliance.builder.writer import BundleWriter
from appliance.cli.commands.bundle import parts
from appliance.cli.commands.bundle.parts import BuildProgress
from appliance.cli.exits import run
from appliance.errors import BuildFailed, ConfigError, Refused
from appliance.model.bundle.builds.fetched import FetchedArtifact
from appliance.model.programs import Use
from tests.prerequisites import require_for
from tests.unit.bundle.samples import FakeLock, FakeSources, artifact, image_of, release
from tests.unit.bundle.test_bundle_directory import Maker

ROOT = Path(__file__).parents[2]
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def made(tmp_path: Path) -> Path:
    maker = Maker(Cache(tmp_path / "cache"), tmp_path / "bundle")
    maker.make()
    return maker.directory


def test_verify_shows_a_complete_bundle(made: Path, capsys: Capture) -> None:
    assert run(["bundle", "verify", str(made)]) == 0
    assert "release: r1" in capsys.readouterr().out


def test_verify_reports_every_fault_and_exits_with_5(made: Path, capsys: Capture) -> None:
    (made / "bin/tool").write_bytes(b"looT")
    (made / "bin/extra").write_bytes(b"x")
    assert run(["bundle", "verify", str(made)]) == 5
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "error: the bundle" in shown.err
    assert "2 faults" in shown.err
    assert "bin/tool: sha256" in shown.err
    again = f"appliance bundle build --release r1 --os debian-12 {made}"
    assert (
        f"hint: remove by hand what no build wrote: {made}/bin/extra; "
        f"then {again} repairs the rest, from the cache or the internet\n"
    ) in shown.err
    (made / "bin/extra").unlink()
    assert run(["bundle", "verify", str(made)]) == 5
    assert f"hint: {again} repairs it, from the cache or the internet\n" in capsys.readouterr().err


def test_verify_as_json_lists_the_faults_on_stdout(made: Path, capsys: Capture) -> None:
    (made / "bin/tool").unlink()
    assert run(["bundle", "verify", "-o", "json", str(made)]) == 5
    found = json.loads(capsys.readouterr().out)
    assert found["faults"] == ["bin/tool: missing"]
    assert set(found) >= {"bundle", "digest", "release", "os", "created", "files", "bytes"}


def test_a_directory_without_a_manifest_is_refused(tmp_path: Path, capsys: Capture) -> None:
    for verb in ("verify", "show"):
        assert run(["bundle", verb, str(tmp_path)]) == 3
        assert "is not a bundle: it has no manifest.json" in capsys.readouterr().err


def test_a_missing_or_damaged_medium_is_named(tmp_path: Path, capsys: Capture) -> None:
    assert run(["bundle", "verify", str(tmp_path / "usb")]) == 3
    said = capsys.readouterr().err
    assert f"the directory {tmp_path / 'usb'} does not exist" in said
    assert "mounted" in said
    assert "bundle build" not in said
    for content in ("{", '{"schema": 1}', "{}"):
        (tmp_path / "manifest.json").write_text(content)
        assert run(["bundle", "show", str(tmp_path)]) == 3
        assert "get another copy from its sender" in capsys.readouterr().err


def test_an_unreadable_manifest_is_named(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(path: Path, **_limits: int) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("appliance.adapters.bundle.directory.read_plain", closed)
    assert run(["bundle", "show", str(tmp_path)]) == 3
    said = capsys.readouterr().err
    assert "this user may not read" in said
    assert f"ls -l {tmp_path / 'manifest.json'}" in said


def test_an_unknown_release_or_system_is_refused(tmp_path: Path, capsys: Capture) -> None:
    require_for(Use.BUILD)
    arguments = ["bundle", "build", str(tmp_path / "b"), "--release"]
    assert run([*arguments, "k8s-9", "--os", "debian-12"]) == 3
    assert "there is no release k8s-9" in capsys.readouterr().err
    assert run([*arguments, "k8s-1.23.5-r1", "--os", "rocky-9"]) == 3
    assert "does not know the operating system rocky-9" in capsys.readouterr().err
    assert not (tmp_path / "b").exists()


def test_release_and_system_must_be_given(tmp_path: Path, capsys: Capture) -> None:
    assert run(["bundle", "build", str(tmp_path)]) == 2
    assert "Missing option '--release'" in capsys.readouterr().err


class Builds:
    """Stands in for the wiring of a build: the workflow is real, its sources are not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cache: Cache) -> None:
        self.sources = FakeSources()
        self.arguments: dict[str, object] = {}
        self._cache = cache
        monkeypatch.setattr(parts, "build", self.build)

    def build(self, name: str, os_name: str, directory: Path, **more: object) -> BuildResult:
        from appliance.builder.build import BuildRequest
        from tests.unit.bundle.samples import FakeStore

        self.arguments = {"name": name, "os": os_name, "directory": directory, **more}
        ports = BuildPorts(self.sources, FakeStore(), FakeLock(), BuildProgress())
        found = release(artifact("core", "part"), artifact("tool"), image_of("web", "core"))
        # One after the other: what is fetched at once ends in any order, and is told in that order.
        asked = BuildRequest(found, os_name, "0", "2026-01-01T00:00:00Z", jobs=1)
        return build_bundle(asked, ports)


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Builds:
    monkeypatch.setenv("APPLIANCE_JOBS", "1")
    return Builds(monkeypatch, Cache(tmp_path / "cache"))


BUILD = ["bundle", "build", "--release", "k8s-1.23.5-r1", "--os", "debian-12"]


def test_build_shows_progress_on_stderr_and_the_result_on_stdout(
    builds: Builds, capsys: Capture
) -> None:
    builds.sources.break_source("tool", "url")
    assert run([*BUILD, "--jobs", "1", "-y", "out"]) == 0
    shown = capsys.readouterr()
    assert "fetching 4 artifacts" in shown.err
    assert "binary tool: skipped https://maker.test/tool: cannot be reached" in shown.err
    assert "binary tool: from go" in shown.err
    assert "0 left" in shown.err
    assert "digest: dddd" in shown.out
    assert "signature: none" in shown.out
    assert builds.arguments["jobs"] == 1
    assert builds.arguments["sign_key"] is None
    assert builds.arguments["replace_other"] is True


def test_build_as_json_names_unverified_artifacts(builds: Builds, capsys: Capture) -> None:
    assert run([*BUILD, "-o", "json", "out"]) == 0
    assert json.loads(capsys.readouterr().out)["verified_never"] == ["tool"]
    assert builds.arguments["replace_other"] is False


def test_build_passes_the_signing_key_on(builds: Builds, tmp_path: Path, capsys: Capture) -> None:
    key = tmp_path / "key"
    assert run([*BUILD, "--sign-key", str(key), "out"]) == 3
    assert "does not exist" in capsys.readouterr().err
    key.write_text("")
    assert run([*BUILD, "--sign-key", str(key), "out"]) == 0
    assert builds.arguments["sign_key"] == key


def test_build_passes_the_keyrings_on_in_order(builds: Builds, tmp_path: Path) -> None:
    rings = [tmp_path / name for name in ("one.gpg", "two.asc")]
    for ring in rings:
        ring.write_text("")
    typed = [word for ring in rings for word in ("--keyring", str(ring))]
    assert run([*BUILD, *typed, "out"]) == 0
    assert builds.arguments["keyrings"] == tuple(rings)


def test_a_build_with_a_missing_artifact_exits_with_1(builds: Builds, capsys: Capture) -> None:
    for kind in ("url", "go"):
        builds.sources.break_source("tool", kind)
    assert run([*BUILD, "out"]) == 1
    shown = capsys.readouterr()
    assert "error: 1 of 4 artifacts could not be fetched or built" in shown.err
    assert "binary tool: no source works" in shown.err


def test_options_can_come_from_the_environment(
    builds: Builds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("APPLIANCE_RELEASE", "k8s-1.23.5-r1")
    monkeypatch.setenv("APPLIANCE_OS", "debian-12")
    monkeypatch.setenv("APPLIANCE_JOBS", "7")
    assert run(["bundle", "build", "out"]) == 0
    assert builds.arguments["jobs"] == 7


def test_show_lists_sources_skipped_sources_and_unverified_artifacts(
    tmp_path: Path, capsys: Capture
) -> None:
    manifest = {
        "schema": 1, "release": "r1", "os": "debian-12", "architecture": "amd64",
        "tool_version": "0", "created": "now", "images": {}, "packages": {}, "package_roots": {},
        "pythons": {"3.11": "the builder runs them", "3.12": "resolved, not tried"},
        "files": [],
        "artifacts": [
            {"name": "tool", "version": "1", "kind": "binary", "path": "bin/tool",
             "sha256": "a" * 64, "size": 2_000_000,
             "source": {"kind": "go", "ref": "e.test/tool@v1",
             "verified": "gosum", "skipped": [{"kind": "url", "ref": "u", "reason": "no"}]}},
            {"name": "odd", "version": "2", "kind": "binary", "path": "bin/odd",
             "sha256": "b" * 64, "size": 1,
             "source": {"kind": "url", "ref": "v", "verified": "never"}},
            {"name": "chrony", "version": "4", "kind": "package", "path": "apt/pool/c.deb",
             "sha256": "c" * 64, "size": 1,
             "source": {"kind": "apt", "ref": "w", "verified": "apt"}},
        ],
    }  # fmt: skip
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    assert run(["bundle", "show", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "go e.test/tool@v1" in out
    assert "skipped: url u: no" in out
    assert "never verified: odd" in out
    words = "wheels for python: 3.11 (the builder runs them), 3.12 (resolved, not tried)"
    assert words in out
    assert "chrony" not in out
    assert run(["bundle", "show", "--all", str(tmp_path)]) == 0
    assert "chrony" in capsys.readouterr().out
    assert run(["bundle", "show", "--output", "json", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["verified_never"] == ["odd"]
    assert found["release"] == "r1"


def test_progress_names_artifacts_that_take_long(capsys: Capture) -> None:
    with BuildProgress(quiet_seconds=0.05) as progress:
        progress.began(["a"])
        progress.started("a")
        deadline = time.monotonic() + 10
        while "still running: a (0 s); 1 left" not in (text := capsys.readouterr().err):
            assert time.monotonic() < deadline, text
            time.sleep(0.02)


def test_progress_prints_a_reason_once(capsys: Capture) -> None:
    progress = BuildProgress()
    progress.began(["a", "b"])
    progress.skipped("a", "https://x.test/a", "x.test cannot be reached")
    progress.skipped("b", "https://x.test/b", "x.test cannot be reached")
    progress.started("b")
    progress.ended("a", 1.0, FetchedArtifact("go", "a", "gosum", ()))
    progress.ended("b", 1.0, BuildFailed("no"))
    lines = capsys.readouterr().err.splitlines()
    assert len([line for line in lines if "cannot be reached" in line]) == 1
    assert "a: from go (1.0 s; 1 left, now b)" in lines[2]
    assert "b: FAILED: no (1.0 s; 0 left)" in lines[3]


def test_progress_shows_the_time_left_by_the_times_of_the_last_build(
    tmp_path: Path, capsys: Capture
) -> None:
    cache = Cache(tmp_path / "cache")
    with BuildProgress(jobs=2, times=parts.BuildTimes(cache)) as first:
        first.began(["a", "b", "c"])
        for name, took in (("a", 300.0), ("b", 40.0), ("c", 0.1)):
            first.started(name)
            first.ended(name, took, FetchedArtifact("go", name, "gosum", ()))
    capsys.readouterr()
    with BuildProgress(jobs=2, times=parts.BuildTimes(cache)) as second:
        second.began(["a", "b"])
        second.started("b")
        second.ended("b", 0.1, FetchedArtifact("go", "b", "gosum", ()))
        second.started("a")
    assert "b: from go (0.1 s; 1 left, about 5 min)" in capsys.readouterr().err
    assert parts.BuildTimes(cache).seconds == {"a": 300.0, "b": 40.0}


@pytest.mark.parametrize("answer", [True, False])
def test_a_bundle_of_another_release_is_replaced_only_after_a_question(
    answer: bool, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def confirm(question: str, **_: object) -> bool:
        asked.append(question)
        return answer

    monkeypatch.setattr(click, "confirm", confirm)
    other = f"{made} holds a bundle of r1 for debian-12, not of r2 for debian-12"
    writer = BundleWriter(made, Cache(tmp_path / "cache"))
    with pytest.raises(Refused, match="not of r2") as refused:
        writer.check("r2", "debian-12", parts._asks_to_replace)
    assert refused.value.hint == "name another directory, or give --yes to replace it"
    assert asked == [], "nobody is there to ask"
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    if answer:
        writer.check("r2", "debian-12", parts._asks_to_replace)
    else:
        with pytest.raises(Refused, match="not of r2"):
            writer.check("r2", "debian-12", parts._asks_to_replace)
    assert asked == [f"{other}; replace it?"]
    BundleWriter(made, Cache(tmp_path / "cache"), replace_other=True).check("r2", "debian-12")


def test_what_is_wrong_with_the_directory_is_said_before_any_host_is_asked(
    made: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    require_for(Use.BUILD)

    def asks(*_: object, **__: object) -> None:
        raise AssertionError("a host was asked")

    monkeypatch.setattr(Sources, "require_keys", asks)
    monkeypatch.setattr(Sources, "lacking", asks)
    (made.parent / "theirs").mkdir()
    (made.parent / "theirs" / "thesis.docx").write_text("years")
    for place, words in ((made, "holds a bundle of r1"), (made.parent / "theirs", "is not empty")):
        assert run(["bundle", "build", *BUILD[2:], str(place)]) == 3
        assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("release", "system", "hint"),
    [
        ("k8s-1.23.5-r1", "ubuntu-20.4", "did you mean 'ubuntu-20.04'?"),
        ("k8s-1.23.5", "debian-12", "did you mean 'k8s-1.23.5-r1'? this installation has: "),
    ],
)
def test_a_typo_in_the_system_or_release_is_answered_with_the_nearest(
    release: str, system: str, hint: str, tmp_path: Path, capsys: Capture
) -> None:
    require_for(Use.BUILD)
    words = ["bundle", "build", "--release", release, "--os", system, str(tmp_path / "b")]
    assert run(words) == 3
    assert f"hint: {hint}" in capsys.readouterr().err


@pytest.mark.parametrize("kernel", ["5.4", "5.4.0-216-generic; reboot", "../x", "--all", ""])
def test_what_is_no_version_of_a_kernel_is_not_taken(
    kernel: str, tmp_path: Path, capsys: Capture
) -> None:
    words = ["bundle", "build", "--release", "r", "--os", "ubuntu-20.04", "--kernel", kernel]
    assert run([*words, str(tmp_path / "b")]) == 2
    assert "is not a kernel version: uname -r prints one" in capsys.readouterr().err
    assert not (tmp_path / "b").exists()


def test_kernels_are_those_of_the_command_line_and_of_the_site(tmp_path: Path) -> None:
    given = ("5.15.0-139-generic",)
    assert parts.kernels_of(None, given * 2) == given
    site = tmp_path / "site"
    shutil.copytree(ROOT / "inventories/example", site)
    path = site / "group_vars/all/site.yml"
    settings = yaml.safe_load(path.read_text())
    settings["gpu"] = {"kernels": ["5.4.0-216-generic", *given]}
    path.write_text(yaml.safe_dump(settings))
    assert parts.kernels_of(site, given) == (*given, "5.4.0-216-generic")
    settings["gpu"] = {}
    path.write_text(yaml.safe_dump(settings))
    assert parts.kernels_of(site, given) == given
    with pytest.raises(ConfigError) as error:
        parts.kernels_of(site, ())
    assert "names no kernel" in error.value.message
    assert "gpu.kernels" in str(error.value.hint)
