"""A site whose nodes are off and whose BMCs are simulated, over TLS, in a network of their own.

The real commands run as processes in that network, and every process of theirs is watched: its
arguments and its environment are what other users of a machine may see of it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from appliance.adapters.site.vault import KEPT, AnsibleVault, new_password
from tests.prerequisites import require
from tests.standins.simulated_bmcs import FILE, SYSTEM, certificate, configured

ROOT = Path(__file__).parents[2]
MODEL = "quanta/d43n-3u.yml"
USER = "operator"
# Base64 and an address write it otherwise than it is.
CANARY = "canary/of+the bmc&1%="
BMCS = {"master1": "203.0.113.11", "gpu1": "203.0.113.21"}
PROC = Path("/proc")
MARK = "WATCHED_BMC_COMMAND"
TICK_SECONDS = 0.02
_NETWORK = "ip link set lo up && for one in {}; do ip address add $one/32 dev lo; done && exec "


@dataclass
class Watch:
    """Looks at the process list fifty times a second until it is told to stop.

    Attributes:
        seen: every argument list and every environment of a process that has the mark.
    """

    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    seen: set[str] = field(default_factory=set)
    _end: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def looking(self) -> Iterator[None]:
        """For as long as the block lasts."""
        # A process that was there before is none of ours, and never becomes one.
        before = set(PROC.iterdir())
        thread = threading.Thread(target=self._look, args=(before,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._end.set()
            thread.join()
            self._end.clear()

    def _look(self, before: set[Path]) -> None:
        sign = f"{MARK}={self.mark}".encode()
        while not self._end.wait(TICK_SECONDS):
            for process in set(PROC.iterdir()) - before:
                with suppress(OSError):
                    environment = (process / "environ").read_bytes()
                    if sign in environment:
                        for text in (environment, (process / "cmdline").read_bytes()):
                            self.seen.add(text.replace(b"\0", b" ").decode(errors="replace"))


@dataclass
class BmcSite:
    """The site, and what commands on it have left behind.

    Attributes:
        folder: everything that a command may write is in it: the site, the home, temporary files.
        secrets: passwords of BMCs that are files of the test itself, outside of ``folder``.
        printed: all output so far.
    """

    folder: Path
    secrets: Path
    watch: Watch
    network: int
    printed: list[str] = field(default_factory=list)

    @property
    def directory(self) -> Path:
        """The site's directory."""
        return self.folder / "rack"

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the site."""
        enter = ("nsenter", f"--net=/proc/{self.network}/ns/net")
        environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(self.folder / "home"),
            "TMPDIR": str(self.folder / "tmp"),
            MARK: self.watch.mark,
        }
        with self.watch.looking():
            done = subprocess.run(
                [*enter, sys.executable, "-m", "appliance", *words],
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=600,
                check=False,
            )
        self.printed += [done.stdout, done.stderr]
        return done

    def vault(self) -> dict[str, str]:
        """What is in the vault now."""
        opened = AnsibleVault(self.directory / KEPT).read(self.directory / VAULT)
        return {name: str(value) for name, value in opened.items()}


VAULT = Path("group_vars/all/vault.yml")


@contextmanager
def bmc_site(root: Path) -> Iterator[BmcSite]:
    """The site of ``inventories/example``, as long as the block lasts. Needs to be root."""
    require("ip", "nsenter", "openssl", "ssh-keygen", "unshare")
    folder, own = root / "searched", root / "own"
    for one in (folder / "home", folder / "tmp", own):
        one.mkdir(parents=True)
    site = folder / "rack"
    shutil.copytree(ROOT / "inventories/example", site)
    key = folder / "home/id_ed25519"
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)]
    subprocess.run(words, check=True, capture_output=True, timeout=60)
    settings = site / "group_vars/all/site.yml"
    known = yaml.safe_load(settings.read_text())
    settings.write_text(yaml.safe_dump({**known, "ssh": {"private_key": str(key)}}))
    shutil.copytree(ROOT / "hardware", folder / "models")
    model = yaml.safe_load((folder / "models" / MODEL).read_text())
    model["wanted"] = {**(model.get("wanted") or {}), "bios": {"IOMMU": "Enabled"}}
    (folder / "models" / MODEL).write_text(yaml.safe_dump(model))
    machines, authorities = [], []
    for name, address in BMCS.items():
        (own / name).mkdir()
        authorities.append(certificate(own / name, address))
        machines.append(
            configured(
                address=address,
                port=443,
                user=USER,
                password=CANARY,
                changes={SYSTEM: {"SerialNumber": f"SN-{name}", "UUID": None}},
                # Of one the password goes with each request, of the other into a session.
                quirks={"basic": name == "gpu1"},
                certificate=f"{name}/bmc.crt",
                key=f"{name}/bmc.key",
            )
        )
    config = {"certificate": "gpu1/bmc.crt", "key": "gpu1/bmc.key", "bmcs": machines}
    (own / "config.json").write_text(json.dumps(config))
    (own / "password").write_text(CANARY)
    (own / "password").chmod(0o600)
    new_password(site)
    secrets = {
        "vault_bmc_user": USER,
        "vault_bmc_password": CANARY,
        "vault_bmc_ca_certificate": "".join(authorities),
    }
    text = AnsibleVault(site / KEPT).encrypt(yaml.safe_dump(secrets))
    (site / VAULT).write_text(text)
    with _served(own / "config.json") as network:
        yield BmcSite(folder, own, Watch(), network)


@contextmanager
def _served(config: Path) -> Iterator[int]:
    """The BMCs, in a network where nothing else answers; a process in it."""
    inside = _NETWORK.format(" ".join(BMCS.values()))
    words = ["unshare", "--net", "sh", "-c", f'{inside}"$@"', "sh", sys.executable, str(FILE)]
    process = subprocess.Popen([*words, str(config)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert [process.stdout.readline() for _ in BMCS] == ["443\n"] * len(BMCS)
        yield process.pid
    finally:
        process.kill()
        process.wait(10)
        process.stdout.close()
