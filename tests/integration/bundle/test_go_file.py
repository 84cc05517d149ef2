"""A file that a Go module brings, through the real Go client and a proxy of files."""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from appliance.builder.sources.go.file import GoFile
from appliance.builder.sources.source import Context
from appliance.errors import SourceUnavailable
from appliance.model.bundle.release.release import Artifact
from appliance.model.bundle.release.sources import GoFileSource
from tests.prerequisites import require

VENDOR = "example.test/vendor"


def wanted(path: str = "crds/one.yaml") -> tuple[Artifact, GoFileSource]:
    source = GoFileSource(kind="go-file", module="tool", of=VENDOR, at="v1.0.0", path=path)
    return Artifact(name="objects", kind="part", version="1", sources=(source,)), source


@pytest.fixture
def proxy(tmp_path: Path, context: Context, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A proxy with one module, and the wrapper module that requires it."""
    require("go")
    folder = tmp_path / "proxy" / VENDOR / "@v"
    folder.mkdir(parents=True)
    (folder / "v1.0.0.info").write_text('{"Version": "v1.0.0"}')
    (folder / "v1.0.0.mod").write_text(f"module {VENDOR}\n")
    with zipfile.ZipFile(folder / "v1.0.0.zip", "w") as archive:
        for name, text in (("go.mod", f"module {VENDOR}\n"), ("crds/one.yaml", "a: 1\n")):
            archive.writestr(f"{VENDOR}@v1.0.0/{name}", text)
    for key, value in (
        ("GOPROXY", (tmp_path / "proxy").as_uri()), ("GONOSUMDB", "example.test"),
        ("GOMODCACHE", str(tmp_path / "modules")),
    ):  # fmt: skip
        monkeypatch.setenv(key, value)
    wrapper = context.folder / "go/tool"
    wrapper.mkdir(parents=True)
    (wrapper / "go.mod").write_text(
        f"module example.test/tool\n\ngo 1.17\n\nrequire {VENDOR} v1.0.0\n"
    )
    subprocess.run(
        ["go", "mod", "download", VENDOR], cwd=wrapper, check=True,
        env={**os.environ, "GOFLAGS": "-mod=mod", "GOWORK": "off"},
    )  # fmt: skip
    assert VENDOR in (wrapper / "go.sum").read_text()
    return folder


def test_a_file_is_taken_out_of_the_module_and_recalled(proxy: Path, context: Context) -> None:
    fetched = GoFile().fetch(*wanted(), context)
    assert (fetched.kind, fetched.verified) == ("go-file", "gosum")
    assert fetched.ref == f"{VENDOR}@v1.0.0/crds/one.yaml"
    assert context.cache.path(fetched.file.sha256).read_text() == "a: 1\n"
    (proxy / "v1.0.0.zip").unlink()
    assert GoFile().fetch(*wanted(), context) == fetched


@pytest.mark.usefixtures("proxy")
def test_a_file_that_the_module_lacks_is_reported(context: Context) -> None:
    with pytest.raises(SourceUnavailable, match=r"vendor v1\.0\.0 has no file crds/two\.yaml"):
        GoFile().fetch(*wanted("crds/two.yaml"), context)


@pytest.mark.usefixtures("proxy")
def test_a_module_that_differs_from_go_sum_is_refused(context: Context) -> None:
    sums = context.folder / "go/tool/go.sum"
    sums.write_text(sums.read_text().replace("h1:", "h1:AAAA"))
    with pytest.raises(SourceUnavailable, match="could not be downloaded"):
        GoFile().fetch(*wanted(), context)
