"""What a control-plane node's admin.conf is made into: a client, and no file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from cryptography.hazmat.primitives import serialization

from appliance.adapters.kubernetes.connection.client import (
    OPEN_FILES,
    NotReadable,
    api_client,
    credentials_of,
)
from appliance.errors import NodeUnreachable
from appliance.model.state.cluster.cluster import Unreachable
from tests import samples
from tests.contract import tree
from tests.unit.adapters.api_servers import api_of, kubeconfig_of, serving

WELL = {"/readyz": 200, "/version/": 200}
NOT_WHOLE = "its admin.conf is incomplete"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pki")


@pytest.fixture(scope="module")
def kubeconfig(folder: Path) -> str:
    return kubeconfig_of(folder)


def _without(*path: str | int) -> Callable[[str], str]:
    def changed(text: str) -> str:
        document = part = yaml.safe_load(text)
        for step in path[:-1]:
            part = part[step]
        del part[path[-1]]
        return yaml.safe_dump(document)

    return changed


def _without_the_keys_end(text: str) -> str:
    """Base64 that is whole, of a key that is not."""
    document = yaml.safe_load(text)
    user = document["users"][0]["user"]
    user["client-key-data"] = user["client-key-data"][:80]
    return yaml.safe_dump(document)


TORN: dict[str, Callable[[str], str]] = {
    "empty": lambda _: "",
    "a line": lambda _: "apiVersion: v1\n",
    "words": lambda _: "no such file",
    "a list": lambda _: "- 1\n",
    "no YAML": lambda text: text + "\n\t{",
    "zeros": lambda text: "\0" * len(text),
    "half": lambda text: text[: len(text) // 2],
    "all but the end": lambda text: text[:-40],
    "no context": _without("current-context"),
    "no authority": _without("clusters", 0, "cluster", "certificate-authority-data"),
    "no user": _without("users", 0, "user"),
    "nobody": _without("users", 0),
    "no key": _without("users", 0, "user", "client-key-data"),
    "half a key": _without_the_keys_end,
    "very deep": lambda _: "[" * 5000,
    "deep, by indentation": lambda _: "- " * 5000,
    "values without end": lambda text: text + "x:\n" + "- {b: c}\n" * 12_000,
    "comments": lambda _: "#\n" * 50_000,
    "contains itself": lambda _: "&a [*a, *a]",
    "an anchor that contains itself": lambda _: "contexts: &a [*a]\ncurrent-context: x\n",
    "contexts are text": lambda _: "contexts: abc\ncurrent-context: x\n",
    "the name is a list": lambda _: "contexts: [{name: [x]}]\ncurrent-context: [x]\n",
    "a mapping as a key": lambda _: "{{a: b}: c}",
    "numbers": lambda _: "current-context: 1" + "0" * 9000 + "\ncontexts: [1:1]\n",
    "a tag": lambda _: "!!python/object/apply:os.system [touch PWNED]",
    "no base64": lambda text: text.replace("client-key-data: ", "client-key-data: é"),
}


@pytest.mark.parametrize("tear", TORN.values(), ids=TORN)
def test_of_a_torn_admin_conf_the_next_node_is_asked(
    tear: Callable[[str], str], folder: Path, kubeconfig: str
) -> None:
    with serving(folder, WELL) as server:
        files = {"cp1": tear(kubeconfig), "cp2": kubeconfig, "cp3": kubeconfig}
        api = api_of(files, dict.fromkeys(files, server.port))
        with api.any_client():
            assert server.asked == ["/readyz"]
        assert api.nodes.asked == ["cp1", "cp2"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("tear", TORN.values(), ids=TORN)
def test_reading_says_which_admin_conf_is_torn(tear: Callable[[str], str], kubeconfig: str) -> None:
    desired = samples.desired(samples.site(masters=3))
    documents = {node.name: samples.converged(node, desired) for node in desired.site.nodes}
    api = api_of(dict.fromkeys(("cp1", "cp2", "cp3"), tear(kubeconfig)), {})
    found = api.read(samples.node_facts(documents))
    assert isinstance(found, Unreachable)
    assert found.reason == "; ".join(f"cp{one}: {NOT_WHOLE}" for one in (1, 2, 3))


def test_a_huge_admin_conf_is_not_even_parsed(kubeconfig: str) -> None:
    api = api_of({"cp1": kubeconfig + "#" * (128 * 1024)}, {})
    with pytest.raises(NodeUnreachable, match="is larger than 128 KiB"):
        api.any_client().__enter__()


@pytest.mark.parametrize(
    "unit", ["- {b: c}\n", "#\n", "- &a\n", "a: |\n", "---\n", "%X\n", "? a\n"]
)
def test_the_worst_admin_conf_is_read_in_no_time(unit: str) -> None:
    text = unit * (128 * 1024 // len(unit))
    began = time.process_time()
    with pytest.raises(NotReadable):
        credentials_of(text)
    # PyYAML alone needs far longer for some of these.
    assert time.process_time() - began < 3


PARTS = (
    ("clusters", "cluster", "certificate-authority-data"),
    ("users", "user", "client-certificate-data"),
    ("users", "user", "client-key-data"),
)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part[-1])
@pytest.mark.parametrize("form", ["aes", "traditional"])
def test_a_passphrase_is_not_asked_for(
    part: tuple[str, str, str], form: str, kubeconfig: str, tmp_path: Path
) -> None:
    """Each of the three texts may say that it is encrypted, and OpenSSL would ask on /dev/tty."""
    document = yaml.safe_load(kubeconfig)
    holder = document[part[0]][0][part[1]]
    pem = b64decode(holder[part[2]]).decode()
    if form == "aes" and "KEY" in pem:
        key = serialization.load_pem_private_key(pem.encode(), None)
        closed = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"x"),
        ).decode()
    else:
        headers = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC," + "0" * 32
        first, rest = pem.split("\n", 1)
        closed = f"{first}\n{headers}\n\n{rest}"
    holder[part[2]] = b64encode(closed.encode()).decode()
    (tmp_path / "admin.conf").write_text(yaml.safe_dump(document))
    done = subprocess.run(
        [sys.executable, "-c", OPENS, tmp_path / "admin.conf"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
        cwd=tree.ROOT, start_new_session=True,
    )  # fmt: skip
    assert "passphrase" in done.stdout, done.stdout + done.stderr
    assert "pass phrase" not in done.stdout + done.stderr
    assert done.returncode == 0, done.stderr


# With a terminal of its own, as an operator's shell has one.
OPENS = """
import os, pty, sys
child, terminal = pty.fork()
if child == 0:
    from appliance.adapters.kubernetes.connection.client import (
        NotReadable, api_client, credentials_of,
    )
    try:
        with api_client(credentials_of(open(sys.argv[1]).read()), 1):
            print("a client")
    except NotReadable as error:
        print(error)
    sys.stdout.flush()
    os._exit(0)
said = b""
try:
    while chunk := os.read(terminal, 4096):
        said += chunk
        if b"pass phrase" in said:
            os.kill(child, 9)
except OSError:
    pass
print(said.decode())
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_credentials_from_elsewhere_with_a_passphrase_are_refused(kubeconfig: str) -> None:
    whole = credentials_of(kubeconfig)
    key = serialization.load_pem_private_key(whole.key, None)
    closed = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"x"),
    )
    with pytest.raises(NotReadable, match=NOT_WHOLE), api_client(replace(whole, key=closed), 1):
        pytest.fail("there is no passphrase")


def test_it_may_be_cut_anywhere(kubeconfig: str) -> None:
    whole = kubeconfig.rstrip("\n")
    for length in range(0, len(whole), 97):
        api = api_of({"cp1": whole[:length]}, {})
        with pytest.raises(NodeUnreachable, match=NOT_WHOLE), api.any_client():
            pytest.fail(f"the first {length} characters were taken for all")


def test_a_program_that_an_admin_conf_names_is_not_run(kubeconfig: str, tmp_path: Path) -> None:
    document = yaml.safe_load(kubeconfig)
    proof = tmp_path / "ran"
    program = {"apiVersion": "client.authentication.k8s.io/v1", "command": "touch"}
    document["users"][0]["user"] = {"exec": {**program, "args": [str(proof)]}}
    api = api_of({"cp1": yaml.safe_dump(document)}, {})
    with pytest.raises(NodeUnreachable, match=NOT_WHOLE), api.any_client():
        pytest.fail("there is no key")
    assert not proof.exists()


def _memory_files() -> list[str]:
    targets = [str(path.resolve()) for path in OPEN_FILES.iterdir()]
    return [target for target in targets if target.startswith("/memfd:appliance")]


@pytest.mark.parametrize("in_memory", [True, False])
def test_each_connection_finds_the_key_and_the_end_leaves_nothing(
    in_memory: bool,
    folder: Path,
    kubeconfig: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from kubernetes.client import VersionApi

    if not in_memory:
        monkeypatch.delattr(os, "memfd_create")
    # A proxy of this laptop is no way to its own loopback.
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with serving(folder, WELL) as server:
        api = api_of({"cp1": kubeconfig}, {"cp1": server.port})
        with api.any_client() as client:
            for _ in range(2):
                assert VersionApi(client).get_code().git_version == "v1.30.0"
            assert server.asked == ["/readyz", "/version/", "/version/"]
            kept = list(tmp_path.rglob("*"))
            assert (len(_memory_files()), bool(kept)) == ((3, False) if in_memory else (0, True))
            assert {path.stat().st_mode & 0o077 for path in kept} <= {0}
        assert (_memory_files(), list(tmp_path.iterdir())) == ([], [])


CHILD = """
import sys, time
from tests.unit.adapters.api_servers import api_of
api = api_of({"cp1": sys.stdin.read()}, {})
with api.client(api.site.control_plane[0]):
    print("open", flush=True)
    time.sleep(60)
"""


def test_a_command_that_is_ended_leaves_no_key_behind(kubeconfig: str, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CHILD],
        cwd=tree.ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(kubeconfig)
        child.stdin.close()
        assert child.stdout.readline() == "open\n"
        inside = list(tmp_path.rglob("*"))
        child.send_signal(signal.SIGTERM)
        assert child.wait(10) == -signal.SIGTERM
    assert (inside, list(tmp_path.iterdir())) == ([], [])
