"""Which Pythons wheels are for, what they need there, and where their files go in an image."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from appliance.builder.wheel_files import wheel_entries
from appliance.builder.wheel_needs import WheelSet, describe, pythons_of, requirements
from appliance.errors import BuildFailed

ALL = ("3.11", "3.12", "3.13")


def wheel(folder: Path, name: str, *needs: str, files: dict[str, str] | None = None) -> Path:
    project, version, *_ = name.split("-")
    path = folder / f"{name}.whl"
    lines = "".join(f"Requires-Dist: {need}\n" for need in needs)
    with zipfile.ZipFile(path, "w") as archive:
        head = f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n"
        archive.writestr(f"{project}-{version}.dist-info/METADATA", head + lines)
        for inside, text in (files or {}).items():
            archive.writestr(inside, text)
    return path


@pytest.mark.parametrize(
    ("tags", "pythons"),
    [
        ("py3-none-any", ALL),
        ("py2.py3-none-any", ALL),
        ("py2-none-any", ()),
        ("cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64", ("3.12",)),
        ("cp311-abi3-manylinux_2_28_x86_64", ALL),
        ("cp312-abi3-manylinux_2_28_x86_64", ("3.12", "3.13")),
        ("cp38-abi3-manylinux_2_28_x86_64", ALL),
        ("cp310-cp310-manylinux_2_28_x86_64", ()),
    ],
)
def test_the_tags_of_a_wheel_say_which_pythons_it_is_for(
    tags: str, pythons: tuple[str, ...]
) -> None:
    assert pythons_of(f"tool-1.0-{tags}.whl", ALL) == set(pythons)


def test_a_need_of_another_python_is_found_by_the_wheels_own_metadata(tmp_path: Path) -> None:
    wheel(tmp_path, "tool-1.0-py3-none-any", 'late; python_version >= "3.13"', "web[fast]>=2")
    wheel(tmp_path, "web-2.1-py3-none-any", 'speed; extra == "fast"', 'tests; extra == "dev"')
    assert WheelSet(tmp_path, "3.12").unmet("tool") == ("speed",)
    assert WheelSet(tmp_path, "3.13").unmet("tool") == ("late", "speed")
    wheel(tmp_path, "speed-1.0-cp313-cp313-linux_x86_64")
    wheel(tmp_path, "late-1.0-py3-none-any", "web<2")
    assert WheelSet(tmp_path, "3.12").unmet("tool") == ("speed",)
    assert WheelSet(tmp_path, "3.13").unmet("tool") == ("web<2",)


def test_a_wheel_without_metadata_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tool-1.0-py3-none-any.whl").write_bytes(b"no wheel")
    with pytest.raises(BuildFailed, match=r"tool-1\.0-py3-none-any\.whl does not say"):
        WheelSet(tmp_path, "3.11")


def test_requirements_name_the_python_only_where_not_every_one_has_a_wheel() -> None:
    files = {
        "fast-1-cp311-cp311-linux_x86_64.whl": "a", "fast-1-cp312-cp312-linux_x86_64.whl": "b",
        "fast-1-cp313-cp313-linux_x86_64.whl": "c", "old-2-cp311-cp311-linux_x86_64.whl": "d",
        "new-3-cp312-abi3-linux_x86_64.whl": "e", "tool-4-py3-none-any.whl": "f",
        "readme.txt": "g",
    }  # fmt: skip
    assert requirements(files).splitlines() == [
        "fast==1 --hash=sha256:a --hash=sha256:b --hash=sha256:c",
        'new==3 ; python_version == "3.12" or python_version == "3.13" --hash=sha256:e',
        'old==2 ; python_version == "3.11" --hash=sha256:d',
        "tool==4 --hash=sha256:f",
    ]


def test_only_the_builders_own_python_is_said_to_run() -> None:
    assert describe(ALL, "3.12") == {
        "3.11": "resolved, not tried", "3.12": "the builder runs them",
        "3.13": "resolved, not tried",
    }  # fmt: skip


def test_the_files_of_a_wheel_go_where_pip_would_put_them(tmp_path: Path) -> None:
    points = "[console_scripts]\nTool = tool.cli:App.main [x]\n[gui_scripts]\nno = a:b\n"
    path = wheel(tmp_path, "tool-1.0-py3-none-any", files={
        "tool/__init__.py": "", "tool-1.0.dist-info/entry_points.txt": points,
        "tool-1.0.data/purelib/more.py": "", "tool-1.0.data/scripts/run": "#!python\nprint()\n",
        "tool-1.0.data/data/share/x": "", "tool-1.0.data/headers/x.h": "",
    })  # fmt: skip
    found = {e.path: e for e in wheel_entries(path, "3.11", tmp_path / "work" / "tool-1.0-any.whl")}
    packages = "/usr/local/lib/python3.11/dist-packages"
    assert set(found) == {
        f"{packages}/tool/__init__.py", f"{packages}/tool-1.0.dist-info/METADATA",
        f"{packages}/tool-1.0.dist-info/entry_points.txt", f"{packages}/more.py",
        "/usr/local/bin/run", "/usr/local/share/x", "/usr/local/bin/Tool",
    }  # fmt: skip
    program = found["/usr/local/bin/Tool"]
    assert (program.mode, found[f"{packages}/more.py"].mode) == (0o755, 0o644)
    assert b"from tool.cli import App\n" in program.content
    assert b"sys.exit(App.main())" in program.content
    source = found["/usr/local/bin/run"].source
    assert source is not None
    assert source.read_text() == "#!/usr/bin/python3\nprint()\n"


@pytest.mark.parametrize(
    "files",
    [
        {"../outside": ""},
        {"/outside": ""},
        {"tool-1.0.data/purelib/../../../outside": ""},
        {"tool-1.0.data/purelib": ""},
        {"tool-1.0.dist-info/entry_points.txt": "[console_scripts]\n../sh = a:b\n"},
        {"tool-1.0.dist-info/entry_points.txt": "[console_scripts]\nx = a;import os:b\n"},
        {"tool-1.0.dist-info/entry_points.txt": "no section"},
    ],
)
def test_a_wheel_that_reaches_outside_of_its_folders_is_refused(
    tmp_path: Path, files: dict[str, str]
) -> None:
    path = wheel(tmp_path, "tool-1.0-py3-none-any", files=files)
    with pytest.raises(BuildFailed, match="cannot be unpacked as a wheel"):
        wheel_entries(path, "3.11", tmp_path / "work" / "tool.whl")
