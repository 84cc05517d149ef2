"""Seeds under cloud-init's own schema, and their networks under netplan itself, of Debian.

The programs are unpacked into a folder, not installed: an installed cloud-init would take over the
machine's network and host keys at its next start. Both are newer than 20.04's; what 20.04 alone
wants stands in ``appliance/model/node/imaging/focal.py``.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from appliance.model.node.imaging.image import NodeImage
from appliance.model.node.imaging.seed import dump
from tests.unit.imaging import bench
from tests.unit.imaging.test_seeds import MODELS, SHAPES, TWO

pytestmark = pytest.mark.slow

PACKAGES = (
    *("cloud-init", "netplan.io", "libnetplan0", "libyaml-0-2", "python3-attr"),
    *("python3-certifi", "python3-chardet", "python3-charset-normalizer", "python3-configobj"),
    *("python3-idna", "python3-jinja2", "python3-json-pointer", "python3-jsonpatch"),
    *("python3-jsonschema", "python3-markupsafe", "python3-oauthlib", "python3-pyrsistent"),
    *("python3-requests", "python3-serial", "python3-six", "python3-urllib3", "python3-yaml"),
)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root file system with cloud-init and netplan in it."""
    folder = tmp_path_factory.mktemp("programs")
    _run(["apt-get", "-qq", "update"], folder)
    _run(["apt-get", "-qq", "download", *PACKAGES], folder)
    for package in folder.glob("*.deb"):
        _run(["dpkg-deb", "-x", package.name, "root"], folder)
    return folder / "root"


def _run(argv: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **environment}
    done = subprocess.run(
        argv, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def _images() -> list[NodeImage]:
    shapes: list[dict[str, Any]] = [{**shape, "bond": TWO} for shape in SHAPES] + SHAPES
    asked = [bench.image({"gateway": "198.18.7.254"}, shape) for shape in shapes]
    return [*(bench.of_model(model) for model in MODELS), *asked]


def _schema(programs: Path, file: Path) -> subprocess.CompletedProcess[str]:
    return _run(
        ["/usr/bin/python3", "-m", "cloudinit.cmd.main", "schema", "--config-file", str(file)],
        file.parent,
        PYTHONPATH=str(programs / "usr/lib/python3/dist-packages"),
    )


def test_cloud_init_takes_every_seed(programs: Path, tmp_path: Path) -> None:
    for number, image in enumerate(_images()):
        file = tmp_path / f"{number}.yaml"
        file.write_text(bench.seed(image).user_data)
        assert "Valid" in _schema(programs, file).stdout


def test_cloud_init_refuses_another_version(programs: Path, tmp_path: Path) -> None:
    file = tmp_path / "user-data"
    file.write_text(bench.seed(bench.image()).user_data.replace("version: 1", "version: one", 1))
    with pytest.raises(AssertionError, match="version"):
        _schema(programs, file)


def test_netplan_takes_every_network_of_installer_and_system(
    programs: Path, tmp_path: Path
) -> None:
    for number, image in enumerate(_images()):
        for when, network in (
            ("after", image.network()),
            ("during", image.network(bench.FAR.address)),
        ):
            said = _netplan(programs, tmp_path / f"{number}-{when}", dump(network.document()))
            assert "deprecated" not in said


def test_netplan_refuses_a_gateway_without_an_address_family(
    programs: Path, tmp_path: Path
) -> None:
    text = dump(bench.image({"gateway": "198.18.7.254"}).network().document())
    with pytest.raises(AssertionError, match="invalid IP family"):
        _netplan(programs, tmp_path, text.replace("via: 198.18.7.254", "via: 198.18.7"))


def _netplan(programs: Path, root: Path, text: str) -> str:
    file = root / "etc/netplan/00-installer-config.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    file.chmod(0o600)
    return _run(
        [str(programs / "usr/libexec/netplan/generate"), "--root-dir", str(root)],
        root,
        LD_LIBRARY_PATH=str(programs / "usr/lib/x86_64-linux-gnu"),
    ).stderr
