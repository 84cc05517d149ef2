"""The stand-in of a vendor bundle does what the vendor's documents say, and says STANDIN."""

from __future__ import annotations

import base64
import json
import os
import socket
import ssl
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers
from cryptography.hazmat.primitives.hashes import SHA256

from appliance.lab.vendor.bundle import FOLDER
from tests.unit.modules.loading import from_file
from tests.unit.modules.test_registry_push import self_signed
from tests.vendor_bundles import tiny_bundle, unpack

tokens = from_file("standin_tokens", FOLDER / "images/tokens.py")
USER, PASSWORD = "test@run.ai", "Abcd!234"
REALM = "/auth/realms/runai"


def port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@dataclass
class Served:
    """A backend with its store, on this machine."""

    url: str
    authority: Path
    folder: Path

    def ask(self, path: str, body: bytes | None = None, token: str = "") -> tuple[int, str]:
        request = urllib.request.Request(self.url + path, data=body)  # noqa: S310 - its own server
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        context = ssl.create_default_context(cafile=str(self.authority))
        try:
            with urllib.request.urlopen(  # noqa: S310 - its own server
                request, timeout=10, context=context
            ) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def login(self, **changes: str) -> tuple[int, dict[str, Any]]:
        form = {
            "grant_type": "password", "client_id": "runai", "scope": "openid",
            "response_type": "id_token", "username": USER, "password": PASSWORD, **changes,
        }  # fmt: skip
        code, text = self.ask(
            f"{REALM}/protocol/openid-connect/token", urllib.parse.urlencode(form).encode()
        )
        return code, json.loads(text)

    def new_cluster(self) -> tuple[str, str]:
        token = self.login()[1]["access_token"]
        _, text = self.ask("/v1/k8s/clusters", b'{"name": "one"}', token)
        return token, json.loads(text)["uuid"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("backend")
    pem = self_signed(folder)
    for name in ("tls.crt", "tls.key"):
        (folder / name).write_bytes(pem.read_bytes())
    (folder / "users.json").write_text(json.dumps({USER: PASSWORD}))
    store, https = port(), port()
    environment = {
        **os.environ, "STORE_DIR": str(folder / "data"), "STORE_PORT": str(store),
        "STORE_URL": f"http://127.0.0.1:{store}", "SECRETS_DIR": str(folder), "PORT": str(https),
        "DOMAIN": "runai.lab.test", "VERSION": "2.7.1", "REGISTRY": "registry.lab.test:5000",
    }  # fmt: skip
    log = (folder / "log").open("w")
    running = [
        subprocess.Popen([sys.executable, FOLDER / "images" / name], env=environment, stderr=log)
        for name in ("store.py", "backend.py")
    ]
    found = Served(f"https://127.0.0.1:{https}", pem, folder)
    deadline = time.monotonic() + 30
    while True:
        try:
            if found.ask("/healthz")[0] == 200:
                break
        except OSError:
            assert time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.05)
    yield found
    for process in running:
        process.terminate()
        process.wait()
    log.close()


def test_the_login_page_says_what_it_is(served: Served) -> None:
    code, page = served.ask("/")
    assert code == 200
    assert "Run:ai STANDIN 2.7.1" in page


def test_the_realm_describes_itself(served: Served) -> None:
    assert json.loads(served.ask(REALM)[1])["realm"] == "runai"
    found = json.loads(served.ask(f"{REALM}/.well-known/openid-configuration")[1])
    assert found["issuer"] == f"https://runai.lab.test{REALM}"
    assert found["jwks_uri"].startswith(found["issuer"])


def _number(text: str) -> int:
    return int.from_bytes(base64.urlsafe_b64decode(text + "=="), "big")


def test_a_login_gives_a_token_that_the_realms_key_signed(served: Served) -> None:
    code, answer = served.login()
    assert code == 200
    (key,) = json.loads(served.ask(f"{REALM}/protocol/openid-connect/certs")[1])["keys"]
    signed, _, signature = answer["id_token"].rpartition(".")
    RSAPublicNumbers(_number(key["e"]), _number(key["n"])).public_key().verify(
        base64.urlsafe_b64decode(signature + "=="), signed.encode(), PKCS1v15(), SHA256()
    )
    claims = json.loads(base64.urlsafe_b64decode(signed.split(".")[1] + "=="))
    assert (claims["aud"], claims["email"]) == ("runai", USER)
    assert claims["exp"] > time.time()


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"password": "wrong"}, 401),
        ({"username": "nobody@run.ai"}, 401),
        ({"client_id": "other"}, 401),
        ({"grant_type": "implicit"}, 400),
        ({"grant_type": "refresh_token", "refresh_token": "x.y.z"}, 400),
    ],
)
def test_other_logins_are_refused(served: Served, changes: dict[str, str], code: int) -> None:
    found, answer = served.login(**changes)
    assert found == code
    assert "error" in answer


def test_a_refresh_token_logs_in_again(served: Served) -> None:
    refresh = served.login()[1]["refresh_token"]
    code, answer = served.login(grant_type="refresh_token", refresh_token=refresh)
    assert (code, "id_token" in answer) == (200, True)


def test_without_a_token_nothing_is_returned(served: Served) -> None:
    assert served.ask("/v1/k8s/clusters")[0] == 401
    assert served.ask("/v1/k8s/clusters", b'{"name": "x"}')[0] == 401
    assert served.ask("/v1/k8s/clusters", token=".".join("abc"))[0] == 401
    assert served.ask("/nothing")[0] == 404


def test_an_agent_connects_the_cluster_with_the_values_it_was_given(
    served: Served, tmp_path: Path
) -> None:
    token, cluster = served.new_cluster()
    code, text = served.ask(f"/v1/k8s/clusters/{cluster}/installfile?cloud=op", token=token)
    values = yaml.safe_load(text)
    assert code == 200
    assert "STANDIN" in text
    assert values["cluster"]["uid"] == cluster
    assert values["global"]["image"]["registry"] == "registry.lab.test:5000"
    assert served.ask(f"/v1/k8s/clusters/{cluster}/installfile?cloud=aws", token=token)[0] == 400
    assert _state(served, token, cluster) == "waiting to connect"
    (tmp_path / "password").write_text(
        values["runai-operator"]["config"]["runaiBackend"]["password"]
    )
    environment = {
        **os.environ, "BACKEND_URL": served.url, "CLUSTER_UUID": cluster, "VERSION": "2.7.1",
        "PASSWORD_FILE": str(tmp_path / "password"), "MARK_FILE": str(tmp_path / "connected"),
        "PERIOD_SECONDS": "0.1",
    }  # fmt: skip
    agent = [sys.executable, FOLDER / "images/agent.py"]
    said = _until_said(agent, {**environment, "CA_FOLDER": str(tmp_path / "none")})
    assert "certificate verify failed" in said
    assert not (tmp_path / "connected").exists()
    said = _until_said(agent, {**environment, "CA_FOLDER": str(served.authority)})
    assert said == f"STANDIN agent: connected to {served.url}"
    assert (tmp_path / "connected").exists()
    assert _state(served, token, cluster) == "connected"
    assert served.ask("/v1/k8s/clusters", b'{"name": "one"}', token)[0] == 409


def test_a_job_that_is_reported_no_more_stays_in_the_history(served: Served) -> None:
    token = served.login()[1]["access_token"]
    _, text = served.ask("/v1/k8s/clusters", b'{"name": "with-jobs"}', token)
    path = f"/v1/k8s/clusters/{json.loads(text)['uuid']}"
    _, text = served.ask(f"{path}/installfile?cloud=op", token=token)
    password = yaml.safe_load(text)["runai-operator"]["config"]["runaiBackend"]["password"]
    first = {"uid": "a", "name": "train", "project": "p", "phase": "Running"}
    second = {"uid": "b", "name": "train", "project": "p", "phase": "Running"}
    for caller in ("", "x", token):
        assert served.ask(f"{path}/jobs", json.dumps([first]).encode(), caller)[0] == 401
    assert json.loads(served.ask(f"{path}/jobs", token=token)[1]) == []
    ended = {**first, "phase": "Succeeded"}
    for listed in ([first], [ended], [second]):
        assert served.ask(f"{path}/jobs", json.dumps(listed).encode(), password)[0] == 200
    assert json.loads(served.ask(f"{path}/jobs", token=token)[1]) == [ended, second]
    assert served.ask(f"{path}/jobs")[0] == 401


def _state(served: Served, token: str, cluster: str) -> str:
    return str(json.loads(served.ask(f"/v1/k8s/clusters/{cluster}", token=token)[1])["status"])


def _until_said(argv: list[Any], environment: dict[str, str]) -> str:
    process = subprocess.Popen(argv, env=environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    with process.stderr:
        said = process.stderr.readline().strip()
        process.terminate()
    process.wait()
    return said


def test_a_store_that_may_not_write_ends_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = subprocess.run(
        [sys.executable, FOLDER / "images/store.py"],
        env={**os.environ, "STORE_DIR": str(tmp_path / "file" / "data")},
        capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "STANDIN postgresql: FATAL: cannot write" in done.stderr


def test_a_key_signs_what_it_alone_can_open() -> None:
    key, other = tokens.new_key(1024), tokens.new_key(1024)
    token = tokens.sign(key, {"exp": 100, "a": 1})
    assert tokens.claims_of(key, token, 50) == {"exp": 100, "a": 1}
    assert tokens.claims_of(key, token, 101) is None
    assert tokens.claims_of(other, token, 50) is None
    assert tokens.claims_of(key, token.replace(".", ".e", 1), 50) is None


@dataclass
class AdminCli:
    """``runai-adm`` out of a bundle of some version."""

    folder: Path

    def run(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "runai-adm", *words], cwd=self.folder, capture_output=True, text=True,
            env={**os.environ, **environment}, timeout=20, check=False,
        )  # fmt: skip


def admin_cli(version: str, folder: Path) -> AdminCli:
    unpack(tiny_bundle(version, folder), folder)
    deploy = folder / "deploy"
    for packed in deploy.glob("runai-admin-cli-*.tar.gz"):
        unpack(packed, deploy)
    (deploy / "tls.crt").write_text("CERTIFICATE")
    (deploy / "tls.key").write_text("KEY")
    return AdminCli(deploy)


ALWAYS = ("--domain", "runai.lab.test", "--tls-cert", "tls.crt", "--tls-key", "tls.key")
ADDRESS = ("--external-ips", "198.51.100.7,198.51.100.8")


@pytest.mark.parametrize(
    ("version", "flags", "unknown"),
    [
        ("2.5.3", (*ALWAYS, *ADDRESS, "--airgapped"), "--registry"),
        ("2.7.1", (*ALWAYS, *ADDRESS, "--airgapped"), "--registry"),
        ("2.8.0", (*ALWAYS, *ADDRESS, "--registry", "reg:5000"), "--airgapped"),
        ("2.10.4", (*ALWAYS, "--registry", "reg:5000"), "--external-ips"),
    ],
)
def test_the_admin_cli_has_the_flags_of_its_version(
    tmp_path: Path, version: str, flags: tuple[str, ...], unknown: str
) -> None:
    cli = admin_cli(version, tmp_path)
    assert f"{version} STANDIN" in cli.run("version").stdout
    done = cli.run("generate-values", *flags, REGISTRY_URL="reg:5000")
    assert done.returncode == 0, done.stderr
    path = cli.folder / "runai-backend-values.yaml"
    values = yaml.safe_load(path.read_text())
    assert path.stat().st_mode & 0o777 == 0o600
    https = values["backend"]["https"]
    assert base64.b64decode(https["crt"]) == b"CERTIFICATE"
    assert base64.b64decode(https["key"]) == b"KEY"
    assert values["backend"]["privateRegistryAddress"] == "reg:5000"
    assert values["deployment"] == {"domain": "runai.lab.test"}
    assert "global" not in values, "the vendor's values name the domain there from 2.12 on"
    assert ("nginx-ingress" in values) == (ADDRESS[0] in flags)
    done = cli.run("generate-values", *flags, unknown, "x")
    assert done.returncode == 1
    assert f"unknown flag: {unknown}" in done.stderr
    assert "required flag --domain" in cli.run("generate-values").stderr


def test_nfs_becomes_the_home_of_both_volumes(tmp_path: Path) -> None:
    cli = admin_cli("2.7.1", tmp_path)
    words = (*ALWAYS, *ADDRESS, "--nfs-server", "nas", "--nfs-path", "/srv")
    assert cli.run("generate-values", *words).returncode == 0
    values = yaml.safe_load((cli.folder / "runai-backend-values.yaml").read_text())
    nfs = {"nfs": {"enabled": True, "server": "nas", "path": "/srv"}}
    assert values["postgresql"]["persistence"] == nfs
    assert values["thanos"]["receive"]["persistence"] == nfs


LAYOUTS = {
    "2.7.1": (
        "runai-2.7.1.tar",
        {"runai-admin-cli-2.7.1-linux-amd64.tar.gz", "runai-backend-2.7.1.tgz"},
    ),
    "2.10.4": (
        "runai-air-gapped-2.10.4.tar",
        {"runai-adm", "runai-backend/runai-backend-2.10.4.tgz"},
    ),
    "2.17.0": ("runai-air-gapped-2.17.0.tar", {"control-plane-2.17.0.tgz"}),
}


@pytest.mark.parametrize("version", LAYOUTS)
def test_names_and_layout_are_those_of_the_documents(tmp_path: Path, version: str) -> None:
    name, own = LAYOUTS[version]
    path = tiny_bundle(version, tmp_path)
    assert path.name == name
    with tarfile.open(path) as archive:
        files = {member.name.removeprefix("deploy/") for member in archive if member.isreg()}
    every = {
        "prepare_installation.sh", f"runai-cluster-{version}.tgz", "runai-crds.yaml",
        "images/control-plane.tar", "images/cluster.tar.gz",
    }  # fmt: skip
    assert files == own | every


def test_the_same_version_is_the_same_bytes(tmp_path: Path) -> None:
    one, other = (tiny_bundle("2.7.1", tmp_path / name) for name in ("one", "other"))
    assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize(
    ("registry", "said"),
    [("https://reg:5000", "must not begin with a scheme"), ("", "set it to NAME:PORT")],
)
def test_the_script_wants_a_registry_without_a_scheme(registry: str, said: str) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "REGISTRY_URL"}
    done = subprocess.run(
        ["bash", FOLDER / "prepare_installation.sh"], check=False, capture_output=True, text=True,
        env={**environment, **({"REGISTRY_URL": registry} if registry else {})}, timeout=20,
    )  # fmt: skip
    assert done.returncode != 0
    assert said in done.stderr
