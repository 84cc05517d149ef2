"""A file of somebody else under a name of the bundle is neither replaced nor taken for ours."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from appliance.adapters.bundle.directory import BundleDirectory
from appliance.adapters.local.cache import Cache
from appliance.errors import Refused
from appliance.model.bundle.manifest import MANIFEST
from tests.unit.bundle.test_bundle_directory import Maker

OWN = b"my own wrapper"


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    """A bundle in somebody's home; the next build brings ``bin/helm``."""
    made = Maker(Cache(tmp_path / "cache"), tmp_path / "home")
    made.make()
    made.files = {"bin/helm": b"helm of the bundle"}
    return made


def _all(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def _put(maker: Maker, kind: str) -> Path:
    path = maker.directory / "bin/helm"
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to("/absent")
    elif kind == "link to a file":
        (maker.directory / "wrapper").write_bytes(OWN)
        path.symlink_to("../wrapper")
    else:
        path.write_bytes(OWN)
    return path


@pytest.mark.parametrize("kind", ["file", "folder", "link", "link to a file"])
def test_a_strangers_file_is_refused_and_nothing_is_changed(maker: Maker, kind: str) -> None:
    path = _put(maker, kind)
    before = _all(maker.directory)
    with pytest.raises(Refused, match="that no build wrote: bin/helm"):
        maker.make(replace_other=True)
    assert _all(maker.directory) == before
    assert path.is_symlink() == kind.startswith("link")
    assert maker.directory / MANIFEST in map(Path, before)


def test_the_same_bytes_are_no_loss_and_are_kept(maker: Maker) -> None:
    (maker.directory / "bin/helm").write_bytes(b"helm of the bundle")
    maker.make()
    assert maker.faults() == []


def test_a_build_that_was_interrupted_goes_on_over_what_it_lists(maker: Maker) -> None:
    (maker.directory / "bin/helm").write_bytes(b"half of he")
    (maker.directory / ".building").write_text(
        json.dumps({"files of this bundle": ["bin/helm", "bin/tool"]})
    )
    maker.make()
    assert maker.faults() == []


def test_what_is_named_after_its_content_is_a_builds_also_where_nothing_lists_it(
    maker: Maker,
) -> None:
    maker.files = {"wheels/tool-1.0-py3-none-any.whl": b"whole"}
    (maker.directory / "wheels").mkdir(exist_ok=True)
    (maker.directory / "wheels/tool-1.0-py3-none-any.whl").write_bytes(b"half")
    maker.make()
    assert maker.faults() == []


@pytest.mark.parametrize("name", ["bin", "charts"])
def test_a_folder_that_leads_elsewhere_is_named_and_not_walked(maker: Maker, name: str) -> None:
    """A stick whose folder leads to ``/`` must not make a command read every folder there is."""
    folder = maker.directory / name
    if folder.exists():
        folder.rename(maker.directory / "aside")
    elsewhere = maker.directory.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "thesis.tex").touch()
    folder.symlink_to(elsewhere)
    found = BundleDirectory(maker.directory).faults()
    assert found
    assert all(fault.path == name for fault in found)
    assert not [fault for fault in found if "thesis.tex" in str(fault)]
