"""A machine with nothing on it: minimal Debian 12 and what the README asks for, in a container.

It reaches the package registries as this machine does: through the settings that apt, pip and Go
have here, read from their own files and variables. Nothing else of this machine is visible inside.
"""

from __future__ import annotations

import hashlib
import io
import ipaddress
import json
import os
import re
import subprocess
import tarfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from appliance.lab.layout import options_for_markers
from tests.contract.tree import ROOT, files
from tests.prerequisites import require

SUITE = "bookworm"
# What README.md asks for, by Debian's names: Python 3.11 that can make virtual environments, git.
ASKED_FOR = ("python3", "python3-venv", "git")
HOME, TREE, AUTHORITIES = "/root", "/root/appliance", "/opt/authorities.crt"
ENVIRONMENT = re.compile(r"^(PIP_|GO[A-Z]+$|(https?|no|all)_proxy$)", re.IGNORECASE)
OF_AUTHORITIES = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE")
SETTINGS = ("/etc/pip.conf", "~/.config/pip/pip.conf", "~/.config/go/env")
CGROUPS = ("/sys/fs/cgroup/cgroup.controllers", "/sys/fs/cgroup/unified/cgroup.controllers")


class PristineMachine:
    """One container of the pristine root."""

    def __init__(self, name: str) -> None:
        self.name = name

    def words(self, *argv: str, environment: Mapping[str, str] | None = None) -> list[str]:
        """What runs a command there, in the tree."""
        given = [f"--env={key}={value}" for key, value in (environment or {}).items()]
        return ["podman", "exec", "--interactive", f"--workdir={TREE}", *given, self.name, *argv]

    def run(self, *argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command there to its end."""
        return subprocess.run(
            self.words(*argv),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=check,
        )

    def lacks(self, programs: Collection[str]) -> set[str]:
        """Which of these programs are not there."""
        script = 'for name; do command -v "$name" >/dev/null || echo "$name"; done'
        return set(self.run("sh", "-c", script, "sh", *sorted(programs)).stdout.split())

    @contextmanager
    def typed(
        self, line: str, output: Path, environment: Mapping[str, str] | None = None
    ) -> Iterator[subprocess.Popen[str]]:
        """Type a line, as on a terminal: its process group can be interrupted."""
        script = 'echo $$ >/run/typed; exec bash -o pipefail -c "$0"'
        with output.open("w") as sink:
            process = subprocess.Popen(
                self.words("setsid", "--wait", "bash", "-c", script, line, environment=environment),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                text=True,
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                self.interrupt("KILL")
                process.wait(60)

    def interrupt(self, signal: str = "INT") -> None:
        """What Ctrl-C does to what was typed."""
        self.run("sh", "-c", f"kill -{signal} -$(cat /run/typed)", check=False)


@contextmanager
def pristine_machine(name: str) -> Iterator[PristineMachine]:
    """A machine with this tree on it, and nothing else of ours."""
    # Podman's own network calls iptables.
    require("podman", "runc", "iptables", "mmdebstrap", "gpg")
    options = options_for_markers([path for path in CGROUPS if Path(path).exists()])
    # Programs that are built there run from there, and a root file system is made there.
    options = [option for option in options if option != "--tmpfs=/tmp"]
    command = ["podman", "--runtime=runc", "run", "--detach", f"--name={name}"]
    # A lab with Run:ai has some 1,200 threads, and two labs may run; podman would allow 2,048.
    command += ["--pids-limit=-1"]
    command += [f"--hostname={name}", *options]
    # Containers of a container need a file system that is no overlay.
    command += ["--volume=/var/lib/containers", "--volume=/var/tmp", *_mounts()]
    command += [f"--env={key}={value}" for key, value in _environment().items()]
    # Its first process has to collect children whose parents ended: bash does, sleep does not.
    init = ["bash", "-c", "sleep infinity & wait"]
    subprocess.run([*command, _image(), *init], check=True, capture_output=True)
    machine = PristineMachine(name)
    try:
        _lay_out(machine)
        yield machine
    finally:
        subprocess.run(
            ["podman", "rm", "--force", "--volumes", "--time=0", name],
            check=True,
            capture_output=True,
        )


def _image() -> str:
    """The root's image, made once for these packages and sources."""
    sources = [*Path("/etc/apt").glob("sources.list"), *_in("/etc/apt/sources.list.d")]
    digest = hashlib.sha256(json.dumps([SUITE, *ASKED_FOR]).encode())
    for path in sources:
        digest.update(path.read_bytes())
    image = f"localhost/appliance-pristine:{digest.hexdigest()[:12]}"
    if subprocess.run(["podman", "image", "exists", image], check=False).returncode == 0:
        return image
    make = ["mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", "--format=tar"]
    make += ["--dpkgopt=force-unsafe-io"]
    make += [f"--include={','.join(ASKED_FOR)}", SUITE, "-", *map(str, sources)]
    with subprocess.Popen(make, stdout=subprocess.PIPE) as root:
        subprocess.run(["podman", "import", "--quiet", "-", image], stdin=root.stdout, check=True)
    assert root.returncode == 0
    return image


def _in(folder: str) -> list[Path]:
    found = [path for path in Path(folder).iterdir() if path.suffix in {".list", ".sources"}]
    return sorted(path for path in found if path.stat().st_size)


def _mounts() -> list[str]:
    """Settings of this machine, read-only, where the clients look for them."""
    found = {Path(name).expanduser(): name.replace("~", HOME) for name in SETTINGS}
    found |= {Path(name): name for name in os.environ.get("PIP_FIND_LINKS", "").split()}
    found[_authorities()] = AUTHORITIES
    return [f"--volume={here}:{there}:ro" for here, there in found.items() if here.exists()]


def _authorities() -> Path:
    return Path(os.environ.get("SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt"))


def _environment() -> dict[str, str]:
    found = {key: value for key, value in os.environ.items() if ENVIRONMENT.match(key)}
    if _authorities().exists():
        found |= dict.fromkeys(OF_AUTHORITIES, AUTHORITIES)
    return found


def _lay_out(machine: PristineMachine) -> None:
    """Put there: this machine's settings of apt, addresses for podman, the tree as in a clone."""
    texts = {
        "etc/apt/apt.conf.d/90-of-the-host": _said_by("apt-config", "dump", "Acquire"),
        "etc/containers/containers.conf.d/90-inside.conf": _other_addresses(),
    }
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name, text in texts.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
        for path in files():
            archive.add(ROOT / path, arcname=f"{TREE.lstrip('/')}/{path}")
    unpack = ["podman", "exec", "--interactive", machine.name, "tar", "-C", "/", "-x"]
    subprocess.run([*unpack, "--no-same-owner"], input=content.getvalue(), check=True)
    clone = "git init -q && git add -A && git -c user.name=a -c user.email=a@b commit -qm tree"
    machine.run("sh", "-c", clone)


def _other_addresses() -> str:
    """Settings of podman for the machine: the next subnet, as it is in the default one itself."""
    (network,) = json.loads(_said_by("podman", "network", "inspect", "podman"))
    here = ipaddress.ip_network(network["subnets"][0]["subnet"])
    inside = here.network_address + here.num_addresses
    return f'[network]\ndefault_subnet = "{inside}/{here.prefixlen}"\n'


def _said_by(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout
