"""The server of modules on a node: the same outcome as Ansible's own way, or that way itself."""

from __future__ import annotations

import base64
import functools
import importlib.util
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ansible.executor import module_common
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader
from ansible.template import Templar
from ansible.utils.collection_loader import AnsibleCollectionConfig

from tests.oldest_python import oldest_python

ROOT = Path(__file__).resolve().parents[2]
MODULE = """
import json, os, signal, sys
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule({"code": {"type": "int"}, "log": {}, "kill": {"type": "int"}})
if module.params["log"]:
    with open(module.params["log"], "a") as stream:
        stream.write("ran\\n")
if module.params["kill"]:
    os.kill(os.getpid(), module.params["kill"])
if module.params["code"]:
    sys.stderr.write("it went wrong\\n")
    sys.exit(module.params["code"])
umask = os.umask(0o22)
module.exit_json(
    stands={
        "cwd": os.getcwd(),
        "umask": umask,
        "environment": dict(os.environ),
        "argv": sys.argv[1:],
        "leads": os.getsid(0) == os.getpid(),
        "places": [p for p in sys.path if "payload" not in p],
        "files": sorted(int(n) for n in os.listdir("/proc/self/fd"))[:3],
        "groups": sorted(os.getgroups()),
        "encoding": [sys.stdout.encoding, sys.getfilesystemencoding()],
        "read": sys.stdin.read(),
        "left": os.read(0, 9).decode(),
    },
    parent=open("/proc/%d/cmdline" % os.getppid()).read().replace("\\0", " ").strip(),
)
"""


@functools.cache
def plugin() -> ModuleType:
    """The connection plugin, which puts the client in front of a module."""
    path = ROOT / "playbooks" / "connection_plugins" / "capped_ssh.py"
    spec = importlib.util.spec_from_file_location("capped_ssh", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    # Another test of the same process may have done so; a second time is a warning.
    if AnsibleCollectionConfig.collection_finder is None:
        init_plugin_loader([])
    return module


class Login:
    """A login session on a node: what is typed descends from one process that is named sshd."""

    def __init__(self, folder: Path, run: Path, python: str = sys.executable) -> None:
        self.folder = folder
        self.python = python
        self._run = run
        self._count = 0
        (folder / "surroundings.py").write_text(MODULE)
        shell = folder / "sshd"
        shell.write_text('#!/bin/sh\nwhile read -r line; do eval "$line"; echo "$?"; done\n')
        shell.chmod(0o755)
        self.shell = subprocess.Popen(
            [shell], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def module(self, **params: Any) -> bytes:
        """A module as Ansible sends it to a node."""
        plugin()
        built = module_common.modify_module(
            module_name="surroundings", module_path=str(self.folder / "surroundings.py"),
            module_args=params, templar=Templar(DataLoader()),
            task_vars={"ansible_python_interpreter": self.python},
        )  # fmt: skip
        return bytes(built.b_module_data)

    def served(self, module: bytes) -> bytes:
        """What is sent in its place; its sockets are in a folder of this test."""
        program: bytes = plugin()._with_server(module)
        base = b'"/run/user/%d" % user if user else "/run"'
        assert base in program
        assert program != module
        return program.replace(base, repr(str(self._run)).encode())

    def run(self, program: bytes, before: str = "") -> tuple[int, str, str]:
        """Give it to Python as ssh does; its code and both of its outputs."""
        self._count += 1
        name = str(self.folder / str(self._count))
        Path(name).write_bytes(program)
        line = f"{before} '{self.python}' < {name} > {name}.out 2> {name}.err"
        assert self.shell.stdin is not None
        assert self.shell.stdout is not None
        self.shell.stdin.write(f"( {line} )\n")
        self.shell.stdin.flush()
        code = int(self.shell.stdout.readline())
        return code, Path(f"{name}.out").read_text(), Path(f"{name}.err").read_text()

    def sockets(self) -> list[Path]:
        """The servers that listen."""
        return sorted(self._run.glob("appliance-modules/*"))

    def server(self) -> int:
        """Start one by a first module, and wait until it listens; its process."""
        self.run(self.served(self.module()))
        wait_until(lambda: bool(self.sockets()))
        return int(self.sockets()[0].name.rsplit("-", 2)[1])

    def end(self) -> None:
        """Log out."""
        self.shell.communicate()


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait for what must come, for as long as a busy machine may need."""
    until = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


def pythons() -> list[str]:
    """This Python, and the one of Ubuntu 20.04 where this machine has it."""
    return [sys.executable, *([str(oldest)] if (oldest := oldest_python()) else [])]


@pytest.fixture(params=pythons(), ids=lambda python: Path(python).name)
def login(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Login]:
    # The path of a socket is short.
    run = Path(tempfile.mkdtemp(prefix="ms"))
    made = Login(tmp_path, run, request.param)
    yield made
    for socket in made.sockets():
        with suppress(ProcessLookupError):
            os.kill(int(socket.name.rsplit("-", 2)[1]), signal.SIGKILL)
    made.end()
    shutil.rmtree(run)


def by_server(answer: tuple[int, str, str]) -> bool:
    """Whether the module's parent was a server."""
    return str(json.loads(answer[1])["parent"]) in {f"{python} -" for python in pythons()}


def test_a_module_stands_where_it_would_stand_without_the_server(login: Login) -> None:
    module = login.module()
    # As of a role's `environment`, with a name that is in no server's own.
    before = "umask 027; cd /usr; export FOR_IT='a=b c';"
    plain = login.run(module, before)
    first = login.run(login.served(module), before)
    wait_until(lambda: bool(login.sockets()))
    second = login.run(login.served(module), before)
    assert not by_server(plain)
    assert not by_server(first)
    assert by_server(second)
    stands = [json.loads(out)["stands"] for _, out, _ in (plain, first, second)]
    assert stands[0] == stands[1] == stands[2]
    assert stands[0]["cwd"] == "/usr"
    assert stands[0]["environment"]["FOR_IT"] == "a=b c"
    assert stands[0]["umask"] == 0o27
    assert not stands[0]["leads"]
    (socket,) = login.sockets()
    assert (socket.stat().st_mode & 0o777, socket.parent.stat().st_mode & 0o777) == (0o600, 0o700)


@pytest.mark.parametrize("params", [{"code": 3}, {"kill": signal.SIGTERM.value}, {"wrong": 1}])
def test_a_module_that_fails_fails_alike(login: Login, params: dict[str, Any]) -> None:
    login.server()
    module = login.module(**params)
    assert login.run(login.served(module)) == (plain := login.run(module))
    assert plain[0] != 0


def test_it_ends_with_its_login_session_and_leaves_nothing(login: Login) -> None:
    server = login.server()
    place = login.sockets()[0].parent
    login.end()
    wait_until(lambda: not Path(f"/proc/{server}").exists())
    assert not place.exists()


def test_what_a_killed_server_left_is_replaced(login: Login) -> None:
    server = login.server()
    (old,) = login.sockets()
    os.kill(server, signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{server}").exists())
    assert not by_server(login.run(login.served(login.module())))
    wait_until(lambda: login.sockets() not in ([], [old]))
    assert old not in login.sockets()
    assert by_server(login.run(login.served(login.module())))


def test_a_server_that_hangs_runs_nothing_later(login: Login) -> None:
    server = login.server()
    log = login.folder / "log"
    program = login.served(login.module(log=str(log)))
    os.kill(server, signal.SIGSTOP)
    try:
        answer = login.run(program.replace(b"ANSWER_SECONDS = 5", b"ANSWER_SECONDS = 0.2"))
    finally:
        os.kill(server, signal.SIGCONT)
    assert not by_server(answer)
    # The one it takes next comes after that one.
    assert by_server(login.run(login.served(login.module())))
    assert log.read_text() == "ran\n"


@pytest.mark.parametrize("before", ["LC_ALL=C", "ulimit -n 512;", "PYTHONHASHSEED=1"])
def test_in_another_environment_the_module_runs_in_its_own_process(
    login: Login, before: str
) -> None:
    login.server()
    code, out, _ = answer = login.run(login.served(login.module()), before)
    assert code == 0, out
    assert not by_server(answer)
    # It has left a server of its own for the next.
    wait_until(lambda: len(login.sockets()) == 2)
    assert by_server(login.run(login.served(login.module()), before))


def test_other_utilities_than_the_servers_are_used(login: Login) -> None:
    login.server()
    module = login.module()
    changed = _with_other_utilities(module)
    assert changed != module
    assert not by_server(login.run(login.served(changed)))
    assert by_server(login.run(login.served(module)))


def _with_other_utilities(module: bytes) -> bytes:
    head, mark, rest = module.rpartition(b"\nzip_data='")
    packed, quote, tail = rest.partition(b"'")
    old = zipfile.ZipFile(io.BytesIO(base64.b64decode(packed)))
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as new:
        for name in old.namelist():
            more = b"\n# newer\n" if name == "ansible/module_utils/basic.py" else b""
            new.writestr(name, old.read(name) + more)
    return head + mark + base64.b64encode(written.getvalue()) + quote + tail


def test_a_folder_that_is_not_ours_alone_is_not_used(login: Login) -> None:
    login.server()
    place = login.sockets()[0].parent
    place.chmod(0o755)
    assert not by_server(login.run(login.served(login.module())))


def test_without_a_login_session_there_is_no_server(login: Login) -> None:
    program = login.served(login.module())
    renamed = program.replace(b'startswith(b"sshd")', b'startswith(b"nosuch")')
    assert renamed != program
    assert not by_server(login.run(renamed))
    assert login.sockets() == []


@pytest.mark.parametrize(
    "sent", [b"import os\n", b"zip_data='x'", b"a\nextensions={'x': 1},\nzip_data='QQ==',\n)\n"]
)
def test_what_is_no_module_of_ansibles_wrapper_is_sent_as_it_is(sent: bytes) -> None:
    assert plugin()._with_server(sent) == sent
