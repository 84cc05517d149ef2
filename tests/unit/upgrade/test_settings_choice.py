"""One value in site.yml is written alone: every other byte stays."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from appliance.adapters.site.settings_choice import (
    RELEASE,
    VENDOR_BUNDLE,
    choose_release,
    choose_vendor_bundle,
    chosen_release,
    require_choosable,
    with_value,
)
from appliance.cli.upgrade_bundles import upgrade_request
from appliance.errors import Refused
from appliance.model.upgrade.plan import UpgradeOptions
from tests import samples
from tests.fakes import run

TEXTS = [
    ("appliance_release: a\n", "appliance_release: b\n"),
    (
        "# x\nappliance_release:   a   # why\nk: [1]\n",
        "# x\nappliance_release:   b   # why\nk: [1]\n",
    ),
    ("k: 1\r\nappliance_release: 'a'\r\n", "k: 1\r\nappliance_release: b\r\n"),
    ('---\n"appliance_release": "a"\n...\n', '---\n"appliance_release": b\n...\n'),
    (
        "k: {appliance_release: a}\nappliance_release: a\n",
        "k: {appliance_release: a}\nappliance_release: b\n",
    ),
    ("domain: größe.test\nappliance_release: a", "domain: größe.test\nappliance_release: b"),
    ("{appliance_release: a, k: 1}\n", "{appliance_release: b, k: 1}\n"),
    ("\ufeffappliance_release: a\n", "\ufeffappliance_release: b\n"),
    ("k: 1\n", None),
]


@pytest.mark.parametrize(("before", "after"), TEXTS)
def test_only_the_value_changes(before: str, after: str | None) -> None:
    assert with_value(before, RELEASE, "b") == after


BUNDLES = [
    ("runai:\n  vendor_bundle: /a.tar # k\n  x: 1\n", "runai:\n  vendor_bundle: {} # k\n  x: 1\n"),
    ("runai: {vendor_bundle: '/a.tar', x: 1}\n", "runai: {vendor_bundle: {}, x: 1}\n"),
    ("vendor_bundle: k\nrunai: {vendor_bundle: a}", "vendor_bundle: k\nrunai: {vendor_bundle: {}}"),
]


@pytest.mark.parametrize(("before", "after"), BUNDLES)
@pytest.mark.parametrize(
    ("file", "quoted"),
    [
        ("/media/runai-2.8.2.tar", "/media/runai-2.8.2.tar"),
        ("/media/USB STICK/a: b #1.tar", '"/media/USB STICK/a: b #1.tar"'),
        ("/größe/{x}, [y].tar", '"/größe/{x}, [y].tar"'),
    ],
)
def test_the_vendor_bundle_is_written_as_yaml_reads_it(
    tmp_path: Path, before: str, after: str, file: str, quoted: str
) -> None:
    path = written(tmp_path, before)
    choose_vendor_bundle(tmp_path, file)
    assert path.read_text("utf-8") == after.replace("{}", quoted)
    assert with_value(before, VENDOR_BUNDLE, file) == after.replace("{}", quoted)


@pytest.mark.parametrize(
    "text",
    [
        "runai: null\n",
        "runai:\n  x: 1\n",
        "runai:\n  vendor_bundle:\n",
        "runai: [vendor_bundle]\n",
        "a: &a {vendor_bundle: x}\nrunai: *a\n",
        "k: 1\n",
    ],
)
def test_a_vendor_bundle_that_cannot_be_changed_alone_is_refused(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(Refused, match=r"runai\.vendor_bundle"):
        choose_vendor_bundle(tmp_path, "/b.tar")
    assert path.read_text() == text


def written(folder: Path, text: str) -> Path:
    path = folder / "group_vars/all/site.yml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


def test_the_file_keeps_its_mode_and_line_ends(tmp_path: Path) -> None:
    path = written(tmp_path, "k: 1\r\nappliance_release: a\r\n")
    path.chmod(0o640)
    choose_release(tmp_path, "b")
    assert path.read_bytes() == b"k: 1\r\nappliance_release: b\r\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert [one.name for one in path.parent.iterdir()] == ["site.yml"]


def test_the_same_release_is_not_written_again(tmp_path: Path) -> None:
    path = written(tmp_path, "appliance_release: a\n")
    before = path.stat().st_ino
    choose_release(tmp_path, "a")
    assert path.stat().st_ino == before


@pytest.mark.parametrize("text", ["k: 1\n", "appliance_release: &a a\nk: *a\n"])
def test_what_cannot_be_changed_alone_is_refused(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(Refused, match="appliance_release"):
        choose_release(tmp_path, "b")
    assert path.read_text() == text


def test_a_link_stays_and_its_target_is_written(tmp_path: Path) -> None:
    path = written(tmp_path / "shared", "appliance_release: a\n")
    link = tmp_path / "group_vars/all/site.yml"
    link.parent.mkdir(parents=True)
    link.symlink_to(path)
    choose_release(tmp_path, "b")
    assert link.is_symlink()
    assert path.read_text() == "appliance_release: b\n"


REFUSED = [
    "appliance_release: a\nappliance_release: b\n",
    "x: &a old\nappliance_release: *a\n",
    "appliance_release: [a]\n",
    "- appliance_release: a\n",
    "appliance_release: a\n---\nappliance_release: a\n",
    "appliance_release: 'a\n",
    "<<: {appliance_release: a}\n",
    "",
]


@pytest.mark.parametrize("text", REFUSED)
@pytest.mark.parametrize("do", [choose_release, require_choosable])
def test_a_file_of_another_form_is_refused_and_stays(
    tmp_path: Path, text: str, do: Callable[[Path, str], None]
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(Refused, match=r"site\.yml"):
        do(tmp_path, "c")
    assert path.read_bytes() == text.encode()


def test_it_is_known_beforehand_whether_the_file_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, "appliance_release: a\n")
    require_choosable(tmp_path, "b")
    assert path.read_text() == "appliance_release: a\n"
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(Refused, match="could not be written"):
        require_choosable(tmp_path, "b")
    require_choosable(tmp_path, "a")


@pytest.mark.parametrize(
    ("file", "named"),
    [
        ("site/runai-2.8.2.tar", "runai-2.8.2.tar"),
        ("site/vendor/runai-2.8.2.tar", "vendor/runai-2.8.2.tar"),
        ("link/../site/runai-2.8.2.tar", "runai-2.8.2.tar"),
        ("other/runai-2.8.2.tar", "{}/other/runai-2.8.2.tar"),
        ("site-2/runai-2.8.2.tar", "{}/site-2/runai-2.8.2.tar"),
        ("site/~runai.tar", "{}/site/~runai.tar"),
    ],
)
def test_a_bundle_in_the_site_is_named_from_there(tmp_path: Path, file: str, named: str) -> None:
    """A site that two machines share by git lies at another place on each."""
    site = tmp_path / "site"
    path = written(site, "runai: {vendor_bundle: 'runai-2.8.2.tar'}\n")
    (tmp_path / "link").symlink_to(site)
    choose_vendor_bundle(site, str(tmp_path / file))
    assert yaml.safe_load(path.read_text()) == {
        "runai": {"vendor_bundle": named.format(tmp_path)},
    }


def test_a_request_to_upgrade_knows_the_release_that_the_file_has(tmp_path: Path) -> None:
    """The site that a command is given has the release that was asked for."""
    site = replace(samples.site(appliance_release="k8s-1.23.17-r1"), directory=tmp_path)
    written(tmp_path, "appliance_release: 'k8s-1.23.5-r1' # r1\n")
    options = UpgradeOptions("k8s-1.23.17-r1")
    request = upgrade_request(samples.desired(site), options, run("cluster upgrade"))
    assert request.before == "k8s-1.23.5-r1"


@pytest.mark.parametrize(
    ("text", "found"), [("k: a\n", ""), ("appliance_release: [a]\n", ""), ("- a\n", "")]
)
def test_a_file_without_a_release_has_none(tmp_path: Path, text: str, found: str) -> None:
    written(tmp_path, text)
    assert chosen_release(tmp_path) == found


@pytest.mark.parametrize("content", [b"\xff", b"a: [\n", None])
def test_a_file_that_cannot_be_read_any_more_is_refused(
    tmp_path: Path, content: bytes | None
) -> None:
    path = written(tmp_path, "appliance_release: a\n")
    path.write_bytes(content) if content is not None else path.unlink()
    with pytest.raises(Refused, match="cannot be read"):
        chosen_release(tmp_path)
