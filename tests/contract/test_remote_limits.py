"""Every call that leaves this machine has a limit: found in the source, so none is forgotten."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract import tree

API_VERB = re.compile(r"(list|read|get|patch|create|delete|replace|connect)_\w+|get_code")
# Objects of the kubernetes library, as the adapters call them, and what makes one.
API_OBJECT = re.compile(r"(core|apps|api|objects|storage|networking|custom|policy|\w+Api)$")
SOCKET_CALLS = {"urlopen", "create_connection"}
PROGRAMS = {"run", "call", "check_call", "check_output"}
REQUESTS = {"get", "post", "put", "delete", "patch", "head", "request"}
# The places that run a command over SSH; a deadline ends the connection of the first. In the second
# each piece has one, and so has the whole stream.
SSH_CALL = tree.ROOT / "appliance/adapters/ssh/call.py"
SSH_STREAM = tree.ROOT / "appliance/adapters/ssh/streaming.py"


def _adapters() -> list[Path]:
    return sorted((tree.ROOT / "appliance/adapters").rglob("*.py"))


def _name(node: ast.expr) -> str:
    """The last word of what a method is called on: ``self._core`` is ``core``."""
    if isinstance(node, ast.Call):
        return _name(node.func)
    word = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return word.lstrip("_")


def _of_a_name(call: ast.Call) -> set[str]:
    """The limits of what is called by its bare name or as ``sushy.NAME``."""
    name = _name(call.func)
    if name == "Connector":
        return {"connect_timeout", "default_request_timeout"}
    # Without one it makes its own, which counts neither bytes nor the whole time.
    return {"connector"} if name == "Sushy" else set()


def _needs(owner: str, method: str) -> set[str]:
    """The limits that a call has to name."""
    if API_VERB.fullmatch(method) and API_OBJECT.fullmatch(owner):
        return {"_request_timeout"}
    if (owner, method) == ("client", "connect"):
        return {"timeout", "banner_timeout", "auth_timeout"}
    http = owner == "requests" and method in REQUESTS
    program = owner == "subprocess" and method in PROGRAMS
    return {"timeout"} if http or program or method in SOCKET_CALLS else set()


def _unlimited(path: Path, source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        given, owner, method = {keyword.arg for keyword in node.keywords}, "", _name(node.func)
        missing = _of_a_name(node) - given
        if isinstance(node.func, ast.Attribute):
            owner = _name(node.func.value)
            missing |= _needs(owner, method) - given
        if missing or (method == "exec_command" and path not in (SSH_CALL, SSH_STREAM)):
            yield f"{path.name}:{node.lineno}: {owner}.{method} without {sorted(missing)}"


def test_every_remote_call_of_the_adapters_has_a_limit() -> None:
    found = [hit for path in _adapters() for hit in _unlimited(path, tree.read(path))]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "core.read_node(name)",
        "self._core.patch_node(name, body)",
        "CoreV1Api(client).list_node()",
        "self.apps.list_namespaced_deployment(n)",
        "urllib.request.urlopen(request)",
        "socket.create_connection(address)",
        "requests.get(url)",
        "subprocess.run(argv, check=False)",
        "channel.exec_command(command)",
        "sushy.Sushy(url, connect_timeout=3, read_timeout=3)",
        "Connector(url, default_request_timeout=3)",
        "sushy.connector.Connector(url, connect_timeout=3)",
        "client.connect(address, timeout=3)",
    ],
)
def test_a_call_without_a_limit_is_found(source: str) -> None:
    assert list(_unlimited(Path("adapter.py"), source))


def test_a_stream_over_ssh_has_a_limit_for_each_piece_and_for_the_whole() -> None:
    text = tree.read(SSH_STREAM)
    assert text.count("exec_command(") == 1
    assert text.index("settimeout(silence_seconds)") < text.index("exec_command(")
    assert "with ended_after(seconds, self._transport.close)" in text


def test_each_call_over_ssh_ends_its_connection_by_a_deadline() -> None:
    parsed = ast.parse(tree.read(SSH_CALL))
    functions = {one.name: one for one in parsed.body if isinstance(one, ast.FunctionDef)}
    runs = {name for name, one in functions.items() if "exec_command(" in ast.unparse(one)}
    assert runs == {"_exchange", "follow"}
    for name, run in (("call", "_exchange("), ("follow", "exec_command(")):
        (limited,) = (
            block
            for block in ast.walk(functions[name])
            if isinstance(block, ast.With)
            and "ended_after(seconds, transport.close)" in ast.unparse(block.items[0])
        )
        inside, whole = ast.unparse(limited).count(run), ast.unparse(functions[name]).count(run)
        assert inside == whole == 1, name
