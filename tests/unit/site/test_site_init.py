"""A new site is complete, passes its own check, and is written whole or not at all."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.adapters.site.files import check_site, load_site
from appliance.adapters.site.folder import SiteDirectory
from appliance.errors import ConfigError, Refused
from appliance.model.components.runai.vendor_defaults import SECRETS as VENDOR_SECRETS
from appliance.model.site.authority import Authority
from appliance.model.site.files.diagnostics import model_of
from appliance.model.site.files.new import NewSite
from appliance.model.site.settings import SiteSettings
from appliance.workflows.site.init import SiteInitRequest, site_init
from tests.site_cases import KNOWN

NESTED = [model_of(SiteSettings, key) for key in SiteSettings.model_fields]
KEYS = "|".join([*SiteSettings.model_fields, *(k for m in NESTED if m for k in m.model_fields)])
KEY = re.compile(rf"(# )?({'|'.join(SiteSettings.model_fields)}):( |$)")
COMMENTED = re.compile(rf"^( *)# (?=({KEYS}):( |$)|  )")
THREE = {f"cp{number}": f"198.51.100.1{number}/24" for number in (1, 2, 3)}


class FakeVault:
    """Encrypts nothing, in the form of a vault file, and remembers."""

    def __init__(self) -> None:
        self.sealed: list[str] = []

    def encrypt(self, text: str) -> str:
        self.sealed.append(text)
        blocks = text.encode().hex() + "0" * (-len(text.encode().hex()) % 32)
        sealed = "\n".join(("0" * 64, "0" * 64, blocks))
        return "$ANSIBLE_VAULT;1.1;AES256\n" + sealed.encode().hex() + "\n"

    def new_secret(self) -> str:
        return "a-secret-that-was-just-made"


class FakeAuthorities:
    def make(self, name: str) -> Authority:
        return Authority(f"certificate of {name}\nline two\n", "key\nline two\n")


def new(**changes: Any) -> NewSite:
    values: dict[str, Any] = {
        "release": "k8s-1.23.5-r1",
        "operating_system": "ubuntu-20.04",
        "domain": "rack7.example",
        "control_plane": {"master1": "198.51.100.11/24"},
        "gpu_workers": {"gpu1": "198.51.100.21/24"},
    }
    return NewSite(**values | changes)


def write(directory: Path, said: NewSite, vault: FakeVault | None = None) -> tuple[Path, ...]:
    request = SiteInitRequest.of(directory, said)
    folder = SiteDirectory(directory, KNOWN)
    return site_init(request, folder, FakeAuthorities(), vault or FakeVault())


def test_a_new_site_passes_its_own_check(tmp_path: Path) -> None:
    written = write(tmp_path / "rack7", new())
    site = load_site(tmp_path / "rack7", known=KNOWN)
    assert site.name == "rack7"
    assert [node.name for node in site.control_plane] == ["master1"]
    assert [node.name for node in site.workers] == ["gpu1"]
    assert site.services_node.name == "master1"
    assert all(path.exists() for path in written)
    assert (tmp_path / "rack7" / ".appliance").stat().st_mode & 0o777 == 0o700


def test_the_schema_that_site_yml_names_is_there_and_not_ignored(tmp_path: Path) -> None:
    directory = tmp_path / "rack7"
    write(directory, new())
    settings = directory / "group_vars/all/site.yml"
    named = settings.read_text(encoding="utf-8").split("$schema=")[1].split()[0]
    schema = (settings.parent / named).resolve()
    assert schema.is_file()
    ignored = (directory / ".gitignore").read_text(encoding="utf-8").split()
    assert schema.relative_to(directory).parts[0] not in {name.strip("/") for name in ignored}


def test_three_control_planes_get_keepalived_on_8443(tmp_path: Path) -> None:
    write(tmp_path / "rack7", new(control_plane=THREE, virtual_address="198.51.100.10"))
    endpoint = load_site(tmp_path / "rack7", known=KNOWN).settings.control_plane_endpoint
    assert (endpoint.balancer, endpoint.port) == ("keepalived", 8443)


def test_the_authority_goes_into_the_vault_and_nowhere_else(tmp_path: Path) -> None:
    vault = FakeVault()
    written = write(tmp_path / "rack7", new(), vault)
    held = yaml.safe_load(vault.sealed[0])
    own = {name: held.pop(name) for name in VENDOR_SECRETS}
    assert held == {
        "vault_site_ca_certificate": "certificate of rack7\nline two\n",
        "vault_registry_password": "a-secret-that-was-just-made",
    }
    # In a file of its own: a variable of no node outside a run.
    assert yaml.safe_load(vault.sealed[1]) == {"vault_site_ca_key": "key\nline two\n"}
    # In place of the secrets that the vendor's charts bring along; two of them are of logins.
    assert own.pop("vault_runai_admin_password") == "Ra1-a-secret-that-was-just-made"
    assert own.pop("vault_runai_tenant_admin_password") == "Ra1-a-secret-that-was-just-made"
    assert set(own.values()) == {"a-secret-that-was-just-made"}
    for path in written:
        assert "line two" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "secret", ["Rehearsal-1", "{{ no template }}", " leading", "two\nlines", "lines\n"]
)
def test_a_secret_that_was_given_is_in_the_vault_to_the_letter(tmp_path: Path, secret: str) -> None:
    said, vault = new(), FakeVault()
    files = (said.settings(), said.groups(), said.host_vars())
    request = SiteInitRequest(
        tmp_path / "rack7", *files, secrets={"vault_runai_admin_password": secret}
    )
    site_init(request, SiteDirectory(request.directory, KNOWN), FakeAuthorities(), vault)
    text = vault.sealed[0].replace("!unsafe ", "")
    assert yaml.safe_load(text)["vault_runai_admin_password"] == secret


def test_nothing_is_written_over(tmp_path: Path) -> None:
    directory = tmp_path / "rack7"
    write(directory, new())
    before = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    with pytest.raises(Refused, match=r"hosts\.yml exists") as refused:
        write(directory, new(domain="other.example"))
    assert refused.value.exit_code == 3
    assert {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()} == before


def test_a_site_that_would_be_wrong_is_not_written(tmp_path: Path) -> None:
    vault = FakeVault()
    with pytest.raises(ConfigError) as refused:
        write(tmp_path / "rack7", new(gpu_workers={"gpu1": "198.51.100.11/24"}), vault)
    assert any("198.51.100.11 is also master1's" in line for line in refused.value.details)
    assert refused.value.details[0].startswith("--worker gpu1=198.51.100.11/24: ")
    assert not (tmp_path / "rack7").exists()
    assert vault.sealed == []


def test_a_model_for_a_node_that_is_not_there_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        write(tmp_path / "rack7", new(hardware={"gpu9": "quanta/s5sp"}))
    assert refused.value.details == (
        "--hardware gpu9=quanta/s5sp: no such node; did you mean 'gpu1'?",
    )


def test_a_dry_run_names_the_files_and_writes_none(tmp_path: Path) -> None:
    said = new()
    request = SiteInitRequest(
        tmp_path / "rack7", said.settings(), said.groups(), said.host_vars(), dry_run=True
    )
    folder = SiteDirectory(tmp_path / "rack7", KNOWN)
    files = site_init(request, folder, FakeAuthorities(), FakeVault())
    assert tmp_path / "rack7" / "hosts.yml" in files
    assert not (tmp_path / "rack7").exists()


def test_every_setting_stands_in_the_file_given_or_as_a_comment(tmp_path: Path) -> None:
    write(tmp_path / "rack7", new())
    text = (tmp_path / "rack7/group_vars/all/site.yml").read_text(encoding="utf-8")
    for key in SiteSettings.model_fields:
        assert f"\n{key}:" in text or f"\n# {key}:" in text


def test_a_commented_default_can_be_uncommented(tmp_path: Path) -> None:
    directory = tmp_path / "rack7"
    write(directory, new())
    path = directory / "group_vars/all/site.yml"
    text = path.read_text(encoding="utf-8").replace("# nfs: {server: ..., path: ...}\n", "")
    # Like nfs, they have no default: a file and keys of the organisation's are needed.
    needed = ("# external_reg", "# imaging", "# backup")
    text = "\n".join(line for line in text.splitlines() if not line.startswith(needed))
    head, body = text.split("\n\n", 1)
    # Every paragraph is a comment, then a key; a commented key begins at its name.
    paragraphs = []
    for paragraph in body.split("\n\n"):
        lines = paragraph.splitlines()
        first = next((i for i, line in enumerate(lines) if KEY.match(line)), len(lines))
        lines[first:] = [COMMENTED.sub(r"\1", line) for line in lines[first:]]
        paragraphs.append("\n".join(lines))
    path.write_text("\n\n".join([head, *paragraphs]) + "\n", encoding="utf-8")
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    without = {"nfs", "external_registry", "imaging", "backup"}
    assert set(data) == set(SiteSettings.model_fields) - without
    assert check_site(directory, known=KNOWN).faults == ()


def test_any_settings_can_be_given_as_data(tmp_path: Path) -> None:
    settings: Mapping[str, Any] = {
        **new().settings(),
        "operating_system": "debian-12",
        "site_name": "lab",
        "network": {"pod_cidr": "198.19.0.0/17", "service_cidr": "198.19.128.0/17"},
        "kubernetes": {
            "ignore_preflight_errors": ["SystemVerification"],
            "kubelet": {"evictionHard": {"memory.available": "0%"}},
        },
        "time": {"may_set_clock": False},
    }
    groups: Mapping[str, Sequence[str]] = {
        "control_plane": ("cp1",),
        "services": ("cp1",),
        "cpu_workers": ("w1",),
    }
    nodes = {
        "cp1": {"address": "198.18.0.11/24", "hardware": "lab/container"},
        "w1": {"address": "198.18.0.21/24"},
    }
    request = SiteInitRequest(tmp_path / "lab7", settings, groups, nodes)
    site_init(request, SiteDirectory(tmp_path / "lab7", KNOWN), FakeAuthorities(), FakeVault())
    site = load_site(tmp_path / "lab7", known=KNOWN)
    assert site.name == "lab"
    assert site.settings.kubernetes.kubelet == {"evictionHard": {"memory.available": "0%"}}
    assert site.settings.time.may_set_clock is False
    assert str(site.settings.network.pod_cidr) == "198.19.0.0/17"
