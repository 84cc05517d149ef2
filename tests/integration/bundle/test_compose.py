"""Images and programs made here, from real packages and a real C compiler."""

from __future__ import annotations

import json
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from appliance.adapters.local.cache import Cache, digest_of
from appliance.builder.sources.apt.isolated import ResolvedPackage
from appliance.builder.sources.apt.package_root import root_entries
from appliance.builder.sources.oci.compose import AptFile, Compose
from appliance.builder.sources.source import Context
from appliance.errors import BuildFailed, SourceUnavailable
from appliance.model.bundle.builds.fetched import FetchedArtifact, FetchedFile
from appliance.model.bundle.release.release import Artifact
from appliance.model.bundle.release.sources import AptSource, ComposeSource
from tests.prerequisites import require

RELEASE = Path(__file__).parents[3] / "appliance/releases/k8s-1.23.5-r1"


def deb(
    folder: Path, name: str, files: dict[str, str], links: dict[str, str] | None = None
) -> Path:
    tree = folder / name
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(
        f"Package: {name}\nVersion: 1\nArchitecture: amd64\nMaintainer: N <n@e.test>\n"
        "Description: a package of a test\n"
    )
    for path, content in files.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(content)
        (tree / path).chmod(0o755)
    for path, target in (links or {}).items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).symlink_to(target)
    package = folder / f"{name}.deb"
    subprocess.run(
        ["dpkg-deb", "-Znone", "--root-owner-group", "-b", tree, package],
        check=True, capture_output=True,
    )  # fmt: skip
    return package


@dataclass
class FakePackages:
    """Packages that are already there."""

    cache: Cache
    paths: Sequence[Path]

    def closure(self, roots: Sequence[str], *, essential: bool) -> tuple[ResolvedPackage, ...]:
        assert roots
        assert not essential
        return tuple(
            ResolvedPackage(path.stem, "1", "amd64", str(path), *digest_of(path), path.name)
            for path in self.paths
        )

    def fetch(self, packages: Sequence[ResolvedPackage]) -> dict[str, Path]:
        return {item.filename: Path(item.uri) for item in packages}


def with_packages(context: Context, *paths: Path) -> Context:
    return replace(context, packages=FakePackages(context.cache, paths))  # type: ignore[arg-type]


def with_input(context: Context, name: str, content: bytes) -> Context:
    digest, size = context.cache.add_bytes(content)
    part = FetchedArtifact("go", name, "gosum", (FetchedFile(f"parts/{name}", digest, size),))
    return replace(context, inputs={**context.inputs, name: part})


def image(spec: ComposeSource) -> Artifact:
    return Artifact(name="web", kind="image", version="1", image="web:v1", sources=(spec,))


def members(context: Context, fetched: FetchedArtifact) -> dict[str, tarfile.TarInfo]:
    found: dict[str, tarfile.TarInfo] = {}
    manifest = json.loads(context.cache.path(str(fetched.image)).read_bytes())
    for layer in manifest["layers"]:
        with tarfile.open(context.cache.path(layer["digest"].removeprefix("sha256:"))) as archive:
            found |= {member.name: member for member in archive}
    return found


def test_packages_become_a_merged_root_without_documentation(
    context: Context, tmp_path: Path
) -> None:
    package = deb(
        tmp_path, "shell",
        {"bin/dash": "x", "lib/x86_64-linux-gnu/libc.so.6": "x", "usr/share/man/dash.1": "x",
         "usr/share/doc/shell/copyright": "free", "usr/share/doc/shell/changelog": "x"},
        {"bin/sh": "dash", "sbin/tool": "../usr/sbin/other", "lib64/ld.so": "/lib/ld-1.so"},
    )  # fmt: skip
    spec = ComposeSource(
        kind="compose", packages=("shell",), links={"/sbin/iptables": "iptables-nft"}
    )
    found = members(context, Compose().fetch(image(spec), spec, with_packages(context, package)))
    assert found["bin"].linkname == "usr/bin"
    assert found["usr/bin/sh"].linkname == "dash"
    assert found["usr/bin/dash"].isfile()
    assert found["usr/sbin/tool"].linkname == "/usr/sbin/other"
    assert found["usr/lib64/ld.so"].linkname == "/usr/lib/ld-1.so"
    assert found["usr/sbin/iptables"].linkname == "iptables-nft"
    assert found["tmp"].mode == 0o1777
    assert "usr/share/doc/shell/copyright" in found
    assert "usr/share/doc/shell/changelog" not in found
    assert "usr/share/man/dash.1" not in found
    assert not [name for name in found if name.startswith("bin/")]


def test_two_packages_with_one_file_are_refused(tmp_path: Path) -> None:
    packages = {name: deb(tmp_path, name, {"usr/bin/tool": name}) for name in ("first", "second")}
    with pytest.raises(BuildFailed, match="second and another package both contain /usr/bin/tool"):
        root_entries(packages, tmp_path / "work")


def test_an_image_of_binaries_has_the_links_of_its_multi_call_program(context: Context) -> None:
    context = with_input(context, "busybox", b"#!/bin/sh\nprintf 'busybox\\nls\\ncat\\n'\n")
    spec = ComposeSource(
        kind="compose", files={"/bin/busybox": "busybox"}, applets={"/bin/busybox": "/bin"},
        directories=("/root", "/etc"), command=("sh",),
    )  # fmt: skip
    fetched = Compose().fetch(image(spec), spec, context)
    found = members(context, fetched)
    assert fetched.verified == "inputs"
    assert found["bin/ls"].linkname == "/bin/busybox"
    assert found["bin/busybox"].isfile()
    assert (found["bin/busybox"].mode, found["root"].mode) == (0o755, 0o755)


def test_the_same_inputs_give_the_same_image_in_any_cache(context: Context, tmp_path: Path) -> None:
    spec = ComposeSource(kind="compose", files={"/tool": "tool"}, entrypoint=("/tool",))
    one = Compose().fetch(image(spec), spec, with_input(context, "tool", b"tool"))
    other = replace(context, cache=Cache(tmp_path / "other"))
    two = Compose().fetch(image(spec), spec, with_input(other, "tool", b"tool"))
    three = Compose().fetch(image(spec), spec, with_input(other, "tool", b"changed"))
    assert one == two
    assert one.image != three.image


def test_a_file_is_taken_out_of_a_package(context: Context, tmp_path: Path) -> None:
    package = deb(tmp_path, "busybox-static", {"bin/busybox": "static"})
    spec = AptSource(kind="apt", package="busybox-static", member="bin/busybox")
    artifact = Artifact(name="busybox", kind="part", version="1", sources=(spec,))
    fetched = AptFile().fetch(artifact, spec, with_packages(context, package))
    assert context.cache.path(fetched.file.sha256).read_bytes() == b"static"
    assert (fetched.ref, fetched.verified) == ("busybox-static=1:/bin/busybox", "apt")
    absent = AptSource(kind="apt", package="busybox-static", member="bin/other")
    with pytest.raises(BuildFailed, match="no file /bin/other"):
        AptFile().fetch(artifact, absent, with_packages(context, package))


def test_pause_is_compiled_and_answers_its_version(context: Context, tmp_path: Path) -> None:
    require("gcc")
    context = replace(context, folder=RELEASE)
    spec = ComposeSource(kind="compose", c_program="pause.c")
    artifact = Artifact(name="pause", kind="part", version="3.6", sources=(spec,))
    fetched = Compose().fetch(artifact, spec, context)
    program = tmp_path / "pause"
    context.cache.place(fetched.file.sha256, program, executable=True)
    done = subprocess.run([program, "-v"], capture_output=True, text=True, check=True)
    assert "3.6" in done.stdout
    with subprocess.Popen([program]) as running:
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(0.2)
        running.terminate()
        assert running.wait(5) == 0
    assert Compose().fetch(artifact, spec, context) == fetched


def test_a_program_that_does_not_compile_is_reported(context: Context) -> None:
    require("gcc")
    (context.folder / "broken.c").write_text("int main(void) { return }")
    spec = ComposeSource(kind="compose", c_program="broken.c")
    artifact = Artifact(name="broken", kind="part", version="1", sources=(spec,))
    with pytest.raises(SourceUnavailable, match=r"broken\.c could not be compiled"):
        Compose().fetch(artifact, spec, context)
