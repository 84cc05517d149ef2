"""``appliance site`` and ``appliance hardware``: options, exit codes, what is printed."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from appliance.adapters.site.vault import new_password
from appliance.cli import exits
from tests.site_cases import ROOT, break_site, copy_of_good
from tests.trees import snapshot

NEW = [
    "--domain=rack7.example",
    "--control-plane=master1=198.51.100.11/24",
    "--worker=gpu1=198.51.100.21/24",
    "--hardware=master1=quanta/s5sp",
    "--hardware=gpu1=quanta/d43n-3u",
    "--dns=198.51.100.2",
    "--ntp=198.51.100.3",
]


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("APPLIANCE_SITE", "APPLIANCE_OUTPUT", "ANSIBLE_VAULT_PASSWORD_FILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def example(tmp_path: Path) -> Path:
    return copy_of_good(tmp_path / "rack7")


@pytest.mark.parametrize("option", ["--site", "-s"])
def test_check_accepts_a_valid_site(
    option: str, example: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exits.run(["site", "check", option, str(example)]) == 0
    assert capsys.readouterr().out == "rack7: 2 nodes, no fault, 1 warning\n"


def test_the_site_may_come_from_the_environment_or_be_the_current_directory(
    example: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("APPLIANCE_SITE", str(example))
    assert exits.run(["site", "check"]) == 0
    monkeypatch.delenv("APPLIANCE_SITE")
    monkeypatch.chdir(example)
    assert exits.run(["site", "check"]) == 0
    assert capsys.readouterr().out.count("no fault") == 2


def test_without_a_site_the_usage_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert exits.run(["site", "check"]) == 2
    assert "appliance site init DIR" in capsys.readouterr().err


def test_a_broken_site_is_exit_3_with_every_fault_on_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    faults = break_site("many_at_once", tmp_path / "rack7")
    assert exits.run(["site", "check", "-s", str(tmp_path / "rack7")]) == 3
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"error: the site {tmp_path / 'rack7'} has {len(faults)} faults")
    for fault in faults:
        assert f"{fault.file}:{fault.line}: " in printed.err
    assert "hint: correct them" in printed.err
    assert "Traceback" not in printed.err


def test_a_broken_site_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    break_site("unknown_key", tmp_path / "rack7")
    assert exits.run(["site", "check", "-s", str(tmp_path / "rack7"), "-o", "json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is False
    assert found["faults"][0]["remedy"] == "did you mean 'dns_servers'?"
    assert set(found["faults"][0]) == {"file", "line", "problem", "remedy"}


def test_warnings_go_to_stderr_and_do_not_fail(
    example: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = example / "group_vars/all/site.yml"
    path.write_text(path.read_text().replace("ntp_servers: [198.51.100.3]", "ntp_servers: []"))
    assert exits.run(["site", "check", "-s", str(example)]) == 0
    printed = capsys.readouterr()
    assert "2 warnings" in printed.out
    assert "warning: " in printed.err
    assert "no NTP server" in printed.err


def test_check_reports_an_old_schema_and_writes_nothing(
    example: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema, elsewhere = example / ".site.schema.json", tmp_path / "elsewhere"
    elsewhere.write_text("theirs")

    def said() -> str:
        before = snapshot(tmp_path)
        assert exits.run(["site", "check", "-s", str(example)]) == 0
        assert snapshot(tmp_path) == before
        return capsys.readouterr().err

    assert f"appliance site schema > {schema}" in said()
    schema.write_text("{}")
    assert f"appliance site schema > {schema}" in said()
    schema.unlink()
    schema.symlink_to(elsewhere)
    assert f"appliance site schema > {schema}" in said()
    schema.unlink()
    assert exits.run(["site", "schema"]) == 0
    schema.write_text(capsys.readouterr().out)
    assert "schema" not in said()


def test_check_writes_no_schema_that_site_yml_does_not_name(example: Path) -> None:
    path = example / "group_vars/all/site.yml"
    path.write_text(
        path.read_text().replace("$schema=../../.site", "$schema=../../.appliance/site")
    )
    assert exits.run(["site", "check", "-s", str(example)]) == 0
    assert not (example / ".site.schema.json").exists()


def test_a_wrong_vault_password_is_a_fault(
    example: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new_password(example)
    assert exits.run(["site", "check", "-s", str(example), "-o", "json"]) == 3
    (fault,) = json.loads(capsys.readouterr().out)["faults"]
    assert fault["file"] == str(example / "group_vars/all/vault.yml")
    assert "cannot be decrypted with the password in" in fault["problem"]
    assert "ANSIBLE_VAULT_PASSWORD_FILE" in fault["remedy"]


def test_show_prints_the_source_of_each_value(
    example: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exits.run(["site", "show", "-s", str(example)]) == 0
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert rows["domain"].split() == ["domain", "appliance.example", "group_vars/all/site.yml:18"]
    assert rows["network.mtu"].split() == ["network.mtu", "1500", "default"]
    assert "198.51.100.21/24" in rows["gpu1"]


def test_show_as_json(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exits.run(["site", "show", "-s", str(example), "--output", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["name"] == "rack7"
    assert shown["settings"]["network"]["pod_cidr"] == "10.244.0.0/16"
    assert shown["sources"]["network.mtu"] == "default"
    assert [node["name"] for node in shown["nodes"]] == ["master1", "gpu1"]
    assert shown["nodes"][0]["groups"] == ["control_plane", "services"]


def test_show_refuses_a_broken_site(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    break_site("plain_vault", tmp_path / "rack7")
    assert exits.run(["site", "show", "-s", str(tmp_path / "rack7")]) == 3
    assert "is not encrypted" in capsys.readouterr().err


def test_schema_knows_every_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert exits.run(["site", "schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema["additionalProperties"] is False
    assert "NAME:PORT" in schema["properties"]["registry"]["description"]
    assert exits.run(["site", "schema", "--node"]) == 0
    assert "bmc_address" in json.loads(capsys.readouterr().out)["properties"]


def test_init_writes_a_site_that_ansible_reads_the_same_way(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "rack7"
    assert exits.run(["site", "init", str(directory), *NEW, "--new-vault-password"]) == 0
    printed = capsys.readouterr()
    assert f"wrote {directory / 'hosts.yml'}" in printed.out
    assert "PRIVATE KEY" not in printed.out + printed.err
    assert f"keep a copy of {directory}/.appliance/vault-password" in printed.err
    assert exits.run(["site", "check", "-s", str(directory)]) == 0
    password = directory / ".appliance" / "vault-password"
    assert password.stat().st_mode & 0o777 == 0o600
    vault = (directory / "group_vars/all/vault.yml").read_text()
    assert vault.startswith("$ANSIBLE_VAULT;")
    program = Path(
        shutil.which("ansible-inventory", path=str(ROOT / ".venv/bin")) or "ansible-inventory"
    )
    listed = subprocess.run(
        [program, "-i", directory, "--vault-password-file", password, "--list"],
        capture_output=True,
        text=True,
        check=True,
        env={"ANSIBLE_CONFIG": str(ROOT / "playbooks/ansible.cfg"), "PATH": "/usr/bin:/bin"},
    )
    inventory = json.loads(listed.stdout)
    assert inventory["control_plane"]["hosts"] == ["master1"]
    assert inventory["gpu_workers"]["hosts"] == ["gpu1"]
    variables = inventory["_meta"]["hostvars"]["gpu1"]
    assert variables["address"] == "198.51.100.21/24"
    assert "BEGIN CERTIFICATE" in variables["vault_site_ca_certificate"]
    assert "PRIVATE KEY" not in listed.stdout
    authority = (directory / "group_vars/appliance_site_ca/vault.yml").read_text()
    assert authority.startswith("$ANSIBLE_VAULT;")


def test_init_never_overwrites_a_file(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(example.rglob("*"))
    assert exits.run(["site", "init", str(example), *NEW, "--new-vault-password"]) == 3
    assert f"{example / 'hosts.yml'} exists" in capsys.readouterr().err
    assert sorted(example.rglob("*")) == before


def test_init_refuses_an_invalid_site_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*NEW, "--control-plane=master2=198.51.100.12/24", "--new-vault-password"]
    assert exits.run(["site", "init", str(tmp_path / "rack7"), *arguments]) == 3
    printed = capsys.readouterr().err
    assert "2 control-plane nodes" in printed
    assert not (tmp_path / "rack7").exists()


def test_init_without_a_control_plane_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exits.run(["site", "init", str(tmp_path / "rack7"), "--new-vault-password"]) == 3
    said = capsys.readouterr().err
    assert "no node is in the group control_plane" in said
    assert "--control-plane" in said
    assert not (tmp_path / "rack7").exists()


def test_the_readme_example_creates_a_valid_site(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8").replace("\\\n", " ")
    (line,) = (one for one in text.splitlines() if one.strip().startswith("appliance site init"))
    words = [word.replace("inventories", str(tmp_path)) for word in line.split()]
    assert exits.run(words[1:]) == 0
    assert exits.run(["site", "check", "--site", str(tmp_path / "rack7")]) == 0
    assert "2 nodes, no fault, 0 warnings" in capsys.readouterr().out


def test_init_without_a_password_and_without_a_terminal_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exits.run(["site", "init", str(tmp_path / "rack7"), *NEW]) == 3
    assert "the vault's password is not known" in capsys.readouterr().err
    assert not (tmp_path / "rack7").exists()


def test_init_dry_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exits.run(["site", "init", str(tmp_path / "rack7"), *NEW, "--dry-run"]) == 0
    assert "would write" in capsys.readouterr().out
    assert not (tmp_path / "rack7").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--worker=gpu1"], "'gpu1' is not NAME=ADDRESS/PREFIX"),
        (["--worker=a=198.51.100.1/24", "--worker=a=198.51.100.2/24"], "'a' is given twice"),
        (["--new-vault-password", "--vault-password-file=x"], "exclude each other"),
    ],
)
def test_init_usage_errors_exit_with_2(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exits.run(["site", "init", str(tmp_path / "rack7"), *arguments]) == 2
    assert words in capsys.readouterr().err


def test_hardware_list_and_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert exits.run(["hardware", "list"]) == 0
    listed = capsys.readouterr().out
    assert "quanta/d43n-3u" in listed
    assert exits.run(["hardware", "show", "quanta/d43n-3u"]) == 0
    shown = capsys.readouterr().out
    assert "EPYC 7543" in shown
    assert "guide section 2, Table 1" in shown
    assert exits.run(["hardware", "list", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["gigabyte/g492-zd2"]["platform"]["dimm_slots"] == 32
    assert exits.run(["hardware", "show", "quanta/s5sp", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["reference"]["dimm_speed_mts"] == 2400


def test_an_unknown_model_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert exits.run(["hardware", "show", "quanta/d43n"]) == 3
    assert "did you mean 'quanta/d43n-3u'?" in capsys.readouterr().err
