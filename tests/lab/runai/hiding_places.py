"""Where a secret could be told: how each place is searched, and how a canary gets into it.

A search never has a secret among its arguments, and says where it found which, never the value.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from appliance.adapters.control_plane.journal import FileJournal, new_run_id
from appliance.model.state.journal import Record
from tests.lab.conftest import LabSite, wait_for
from tests.lab.runai.commands import Commands, Said
from tests.lab.runai.known_secrets import Secret, forms, state_files
from tests.lab.runai.watch import HERE, ProcessWatch
from tests.lab.support.cluster import KUBECTL
from tests.lab.support.issuer import put
from tests.lab.support.stillness import scene

NODES = ("cp1", "w1", "w2", "w3")
SEARCH = (Path(__file__).parent / "node_search.py").read_text()
# A canary among the processes lives until it is found; if it is not, so long.
LIFE_SECONDS = 60


@dataclass(frozen=True)
class World:
    """The lab, and all that was seen and said."""

    lab: LabSite
    watch: ProcessWatch
    commands: Commands


Look = Callable[[World, Sequence[Secret]], list[str]]
Plant = Callable[[World, str], AbstractContextManager[None]]


def _in(text: str, secrets: Iterable[Secret]) -> list[str]:
    return [secret.name for secret in secrets if any(form in text for form in forms(secret.value))]


def in_state(world: World, secrets: Sequence[Secret]) -> list[str]:
    """Runs with their inventories, events and logs, journal and index: all but the keys' files."""
    found = []
    for name, path in state_files(world.lab):
        text = path.read_bytes().decode(errors="replace")
        meant = [secret for secret in secrets if name not in secret.kept]
        found += [f"{name}: {told}" for told in _in(text, meant)]
    return found


def in_history(world: World, secrets: Sequence[Secret]) -> list[str]:
    """``appliance history``, as people and programs read it."""
    for output in ("table", "json"):
        world.commands.succeed("history", "--site", str(world.lab.directory), "--output", output)
    return _in_said(world.commands.said[-2:], secrets)


def in_output(world: World, secrets: Sequence[Secret]) -> list[str]:
    """Standard output and error of every command."""
    return _in_said(world.commands.said, secrets)


def _in_said(said: Iterable[Said], secrets: Sequence[Secret]) -> list[str]:
    return [
        f"{one.command}: {stream}: {told}"
        for one in said
        for stream, text in (("output", one.output), ("errors", one.errors))
        for told in _in(text, secrets)
    ]


def in_processes(world: World, secrets: Sequence[Secret]) -> list[str]:
    """Argument lists, as they were seen while commands ran."""
    seen = {where: list(lines) for where, lines in list(world.watch.seen.argv.items())}
    return [
        f"{where}: {line.split(' ', 1)[0]}: {told}"
        for where, lines in seen.items()
        for told in _in("\n".join(lines), secrets)
        for line in lines
        if told in _in(line, secrets)
    ]


def in_facts(world: World, secrets: Sequence[Secret]) -> list[str]:
    """What the probe brings of every node."""
    return [
        f"{node}: {told}"
        for node, facts in scene(world.lab).node_facts.items()
        for told in _in(json.dumps(facts.document, ensure_ascii=False), secrets)
    ]


def in_cluster(world: World, secrets: Sequence[Secret]) -> list[str]:
    """Events and ConfigMaps; a Secret is a secret's own place."""
    text = world.lab.shell("cp1", f"{KUBECTL} get events,configmaps -A -o json")
    return _in(text, secrets)


def on_nodes(world: World, secrets: Sequence[Secret]) -> list[str]:
    """Logs, journals and jobs of every node, and files there that others can read."""
    wanted = json.dumps({secret.name: sorted(forms(secret.value)) for secret in secrets})
    found = []
    for short in NODES:
        done = subprocess.run(
            ["podman", "exec", "-i", world.lab.node(short), "python3", "-c", SEARCH],
            input=wanted, capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
        found += [f"{short}: {place}: {told}" for place, told in json.loads(done.stdout)]
    return found


PLACES: Mapping[str, Look] = {
    "state directory": in_state,
    "history": in_history,
    "output": in_output,
    "process lists": in_processes,
    "facts": in_facts,
    "cluster": in_cluster,
    "nodes": on_nodes,
}


def in_file(name: str) -> Plant:
    """A file of the state directory."""

    @contextmanager
    def plant(world: World, canary: str) -> Iterator[None]:
        path = world.lab.directory / ".appliance" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'{{"stdout": "{canary}\\n"}}')
        try:
            yield
        finally:
            path.unlink()

    return plant


@contextmanager
def in_record(world: World, canary: str) -> Iterator[None]:
    """A record of the journal."""
    folder, run = world.lab.directory / ".appliance" / "journal", new_run_id()
    started = "2022-08-01T00:00:00+00:00"
    record = Record(run, 1, "canary", "canary", (), (), started, 0.0, "failed", "x", "0")
    FileJournal(folder).append(Record(**{**vars(record), "error": canary}))
    try:
        yield
    finally:
        (folder / f"{run}-001.json").unlink()


def in_words(code: int, *words: str) -> Plant:
    """What a command says when it is given the canary, and how it ends."""

    @contextmanager
    def plant(world: World, canary: str) -> Iterator[None]:
        given = [word.replace("CANARY", canary) for word in words]
        done = world.commands.run(*given, "--site", str(world.lab.directory))
        assert done.returncode == code, done.stdout + done.stderr
        try:
            yield
        finally:
            world.commands.said.pop()

    return plant


@contextmanager
def in_own_process(world: World, canary: str) -> Iterator[None]:
    """An argument of a process on the control host, which lives until it was looked for."""
    before = world.watch.looks
    program = f"import time; time.sleep({LIFE_SECONDS})"
    with subprocess.Popen([sys.executable, "-c", program, canary]) as process:
        try:
            # The look that is under way may have passed it already.
            wait_for("a whole look", lambda: world.watch.looks > before + 1, LIFE_SECONDS)
            yield
        finally:
            process.kill()


def in_process_of(short: str) -> Plant:
    """An argument of a process on a node, which lives until it was looked for."""

    @contextmanager
    def plant(world: World, canary: str) -> Iterator[None]:
        # It ends with its input; the canary goes by that, too.
        live = f"exec timeout {LIFE_SECONDS} sh -c 'cat >/dev/null; true' sh {canary}\n"
        argv = ["podman", "exec", "-i", world.lab.node(short), "sh", "-eu"]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None
            process.stdin.write(live)
            process.stdin.flush()
            yield

    return plant


def on_node(short: str, script: str, undo: str = "") -> Plant:
    """Whatever a script does with ``$canary``; the script goes by standard input."""

    @contextmanager
    def plant(world: World, canary: str) -> Iterator[None]:
        _sh(world.lab, short, f"canary={canary}\n{script}")
        try:
            yield
        finally:
            _sh(world.lab, short, undo)

    return plant


@contextmanager
def in_config_map(world: World, canary: str) -> Iterator[None]:
    """A ConfigMap."""
    document = {
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"canary": canary},
        "metadata": {"name": "canary", "namespace": "default"},
    }  # fmt: skip
    put(world.lab, "cp1", json.dumps(document), "/root/canary.json")
    world.lab.shell("cp1", f"{KUBECTL} apply -f /root/canary.json; rm /root/canary.json")
    try:
        yield
    finally:
        world.lab.shell("cp1", f"{KUBECTL} delete configmap canary --wait=false")


def _sh(lab: LabSite, short: str, script: str) -> None:
    subprocess.run(
        ["podman", "exec", "-i", lab.node(short), "sh", "-eu"],
        input=script, text=True, timeout=60, check=True, capture_output=True,
    )  # fmt: skip


def _remove(path: str) -> str:
    return f"rm -rf {path}"


def _file(path: str, text: str = "$canary", mode: str = "600") -> str:
    return f'mkdir -p "$(dirname {path})"; umask 077; echo {text} > {path}; chmod {mode} {path}'


JOB, LOG = "/var/lib/appliance/jobs/canary.out", "/var/log/appliance-canary"
CONTAINER = "/var/lib/docker/containers/canary/canary-json.log"
OPEN, CODED = "/etc/appliance/canary", "/tmp/canary"  # noqa: S108 - a node's
ECHO = "systemd-run --quiet --wait --unit=appliance-canary sh -c 'echo '$canary; journalctl --sync"
# Name -> (the place where it has to be found, a part of how it is told there, how it gets there).
CANARIES: Mapping[str, tuple[str, str, Plant]] = {
    "an event of a run": ("state directory", "runs/", in_file("runs/canary/job_events/1.json")),
    "a run's inventory": ("state directory", "inv", in_file("runs/canary/inventory.json")),
    "a run's log": ("state directory", "ansible.log", in_file("runs/canary/ansible.log")),
    "a record": ("state directory", "journal/", in_record),
    "history": ("history", "history", in_record),
    "standard output": (
        "output", "output", in_words(0, "runai", "access", "kubeconfig", "CANARY"),
    ),
    "standard error": (
        "output", "errors", in_words(2, "node", "role", "set", "CANARY", "--role", "gpu", "--yes"),
    ),
    "a process here": ("process lists", HERE, in_own_process),
    "facts": (
        "facts", "w2",
        on_node("w2", 'echo "198.51.100.9 $canary" >> /etc/hosts',
                "grep -v 198.51.100.9 /etc/hosts > /tmp/h; cat /tmp/h > /etc/hosts; rm /tmp/h"),
    ),
    "a ConfigMap": ("cluster", "", in_config_map),
    "a file that others read": (
        "nodes", OPEN, on_node("cp1", _file(OPEN, mode="644"), _remove(OPEN)),
    ),
    "base64": (
        "nodes", CODED, on_node("w1", _file(CODED, '"$(echo xy$canary | base64)"'), _remove(CODED)),
    ),
} | {
    f"a process of {short}": ("process lists", "-" + short, in_process_of(short))
    for short in NODES
} | {
    f"{what} of {short}": (place, found, on_node(short, script, undo))
    for short in NODES
    for what, place, found, script, undo in (
        ("the journal", "nodes", f"{short}: journal", "logger $canary; journalctl --sync", ""),
        ("a unit's journal", "nodes", f"{short}: journal", ECHO, ""),
        ("a job", "nodes", f"{short}: {JOB}", _file(JOB), _remove(JOB)),
        ("a log", "nodes", f"{short}: {LOG}", _file(LOG), _remove(LOG)),
        ("a container's log", "nodes", f"{short}: {CONTAINER}", _file(CONTAINER),
         _remove("/var/lib/docker/containers/canary")),
    )
}  # fmt: skip


def found_in(place: str, world: World, canary: str, seconds: float = LIFE_SECONDS) -> list[str]:
    """Look for a canary until it is found, or time is up."""
    deadline = time.monotonic() + seconds
    while not (found := PLACES[place](world, [Secret("canary", canary)])):
        if time.monotonic() > deadline:
            break
        time.sleep(0.2)
    return found
