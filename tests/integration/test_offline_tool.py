"""The commands that operators type before a bundle's tool is installed refuse what was changed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from appliance.adapters.bundle.signature import SshSigner
from appliance.adapters.local.cache import Cache
from tests.unit.bundle.signing import allow, make_key
from tests.unit.bundle.test_bundle_directory import Maker

PAGE = Path(__file__).parents[2] / "appliance/docs/operations/install-the-tool-offline.md"


def wheel(folder: Path, name: str, version: str, text: str = "") -> Path:
    """A wheel of one module, which the next version of ``name`` would replace."""
    home = f"{name}-{version}.dist-info"
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}_module.py", f"VERSION = '{version}'\n{text}")
        needs = "Requires-Dist: needed\n" if name == "appliance" else ""
        archive.writestr(
            f"{home}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}"
        )
        tag = "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr(f"{home}/WHEEL", tag)
        archive.writestr(f"{home}/RECORD", "")
    return path


class Medium:
    """A signed bundle with the tool, and an admin host."""

    def __init__(self, folder: Path) -> None:
        self.host = folder / "host"
        self.host.mkdir()
        self.bundle = folder / "bundle"
        maker = Maker(Cache(folder / "cache"), self.bundle)
        made = [wheel(folder, "appliance", "1.0"), wheel(folder, "needed", "2.0")]
        maker.files = {f"wheels/{path.name}": path.read_bytes() for path in made}
        maker.make()
        assert maker.faults() == []
        self.ada, self.bob = make_key(folder, "ada"), make_key(folder, "bob")
        self.signers = allow(folder / "allowed_signers", ada=self.ada)
        SshSigner(self.bundle, self.ada).sign()
        venv.create(self.host / "tool", with_pip=True)

    def install(self, bundle: Path) -> subprocess.CompletedProcess[str]:
        section = PAGE.read_text().partition("\n## Command\n")[2].partition("\n## ")[0]
        (block,) = re.findall(r"```\n(.*?)```", section, re.DOTALL)
        first, second, *commands = block.splitlines()
        assert first.startswith("B=")
        assert second == "python3 -m venv tool"
        script = "\n".join([f"B={bundle} S={self.signers} WHO=ada@example", *commands])
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PIP_")}
        return subprocess.run(
            ["sh", "-c", script],
            cwd=self.host,
            env={**kept, "PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
            capture_output=True,
            text=True,
            check=False,
        )

    def installed(self) -> list[str]:
        return sorted(path.name for path in self.host.glob("tool/lib/*/site-packages/*_module.py"))


@pytest.fixture(scope="module")
def medium(tmp_path_factory: pytest.TempPathFactory) -> Medium:
    return Medium(tmp_path_factory.mktemp("medium"))


def _replaced(bundle: Path, _: Medium) -> None:
    wheel(bundle / "wheels", "needed", "2.0", "import os\n")


def _requirements(bundle: Path, _: Medium) -> None:
    path = bundle / "wheels/requirements.txt"
    path.write_text(path.read_text() + "--extra-index-url http://127.0.0.1:9/\n")


def _manifest(bundle: Path, _: Medium) -> None:
    path = bundle / "manifest.json"
    path.write_text(path.read_text().replace('"r1"', '"r2"'))


def _another_signer(bundle: Path, medium: Medium) -> None:
    (bundle / "manifest.json.sig").unlink()
    SshSigner(bundle, medium.bob).sign()


def _unsigned(bundle: Path, _: Medium) -> None:
    (bundle / "manifest.json.sig").unlink()


def _older(bundle: Path, _: Medium) -> None:
    (bundle / "wheels/requirements.txt").unlink()


@pytest.mark.parametrize(
    "harm", [_replaced, _requirements, _manifest, _another_signer, _unsigned, _older]
)
def test_nothing_of_a_medium_that_was_changed_is_installed(
    medium: Medium, tmp_path: Path, harm: Callable[[Path, Medium], None]
) -> None:
    changed = tmp_path / "bundle"
    shutil.copytree(medium.bundle, changed)
    harm(changed, medium)
    done = medium.install(changed)
    assert done.returncode != 0
    assert medium.installed() == []
    assert "Successfully installed" not in done.stdout


def test_what_was_signed_is_installed_and_a_wheel_that_was_added_is_not(
    medium: Medium, tmp_path: Path
) -> None:
    changed = tmp_path / "bundle"
    shutil.copytree(medium.bundle, changed)
    for name in ("appliance", "needed", "pip"):
        wheel(changed / "wheels", name, "99.0")
    done = medium.install(changed)
    assert done.returncode == 0, done.stderr
    assert 'Good "appliance-bundle@hyperscalers" signature' in done.stdout
    assert "Successfully installed appliance-1.0 needed-2.0" in done.stdout
    assert medium.installed() == ["appliance_module.py", "needed_module.py"]
