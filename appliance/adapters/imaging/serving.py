"""What is served while servers install themselves: a medium by HTTP, or PXE beside it."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Final

from appliance.adapters.imaging.medium import extract_kernel, remaster
from appliance.adapters.imaging.other_server import on_interface, other_servers
from appliance.adapters.imaging.server import Content, Reports, SeedServer
from appliance.adapters.local.processes import find_program, run
from appliance.adapters.local.state_files import make_folder
from appliance.errors import CommandFailed, ConfigError, Refused
from appliance.model.bundle.release.installer import Layout
from appliance.model.node.imaging.image import NodeImage
from appliance.model.node.imaging.pxe import (
    INITRD,
    KERNEL,
    LOADER_FOLDERS,
    LOADERS,
    PxeNetwork,
    dnsmasq_configuration,
    scripts,
)
from appliance.model.node.imaging.reports import Heard, Report
from appliance.model.node.imaging.seed import Programs, Seed, Server, for_many

_STARTS_SECONDS: Final = 1.0
_ENDS_SECONDS: Final = 5.0


@dataclass(frozen=True)
class Medium:
    """The ISO of one command.

    Attributes:
        iso: the operator's, as the release names it.
        layout: of it.
        folder: for what is made of it; a folder in it is removed with the command.
    """

    iso: Path
    layout: Layout
    folder: Path


@dataclass(frozen=True)
class Pxe:
    """PXE beside HTTP.

    Attributes:
        network: where dnsmasq answers.
        images: node -> what it becomes.
    """

    network: PxeNetwork
    images: Mapping[str, NodeImage]


class HttpServing:
    """Serves one command's medium, or its seeds and PXE.

    Args:
        address: of this machine; the only one that is listened on.
        port: 0 for any.
        medium: the ISO.
        programs: that go onto the medium.
        pxe: None for virtual media.
    """

    def __init__(
        self,
        address: IPv4Address,
        port: int,
        medium: Medium,
        programs: Programs,
        pxe: Pxe | None = None,
    ) -> None:
        self._where = (address, port)
        self.medium, self.programs, self.pxe = medium, programs, pxe

    @contextmanager
    def open(
        self, tokens: Mapping[str, str], on_report: Callable[[str, Report], None]
    ) -> Iterator[ServedMedium]:
        """Listen; what was made for it is removed at the end.

        Raises:
            ConfigError: not on this address.
        """
        make_folder(self.medium.folder)
        # A run that was killed left its medium of some GB; the site is locked, so none is at work.
        for left in self.medium.folder.glob("run-*"):
            shutil.rmtree(left, ignore_errors=True)
        with (
            tempfile.TemporaryDirectory(dir=self.medium.folder, prefix="run-") as folder,
            SeedServer(*self._where, Reports(tokens, on_report)) as http,
            contextlib.ExitStack() as stack,
        ):
            yield ServedMedium(http, self, Path(folder), stack)


class ServedMedium:
    """What is served."""

    def __init__(
        self, http: SeedServer, what: HttpServing, folder: Path, stack: contextlib.ExitStack
    ) -> None:
        self._http, self._folder, self._stack = http, folder, stack
        self._medium, self._programs, self._pxe = what.medium, what.programs, what.pxe

    @property
    def server(self) -> Server:
        """Where."""
        return self._http.server

    def heard(self, name: str) -> Heard:
        """What a server's installer reported."""
        return self._http.reports.of(name)

    def strange_reports(self, address: str) -> int:
        """How many reports with another run's token came from an address."""
        return self._http.reports.strange(address)

    def offer(self, seeds: Sequence[Seed]) -> str:
        """Make and serve; the URL of the medium, empty with PXE.

        Raises:
            CommandFailed: a program is missing, or failed.
            ConfigError: the disk of this machine is full, or PXE cannot be served.
            Refused: another machine serves one of the servers by PXE.
        """
        if not seeds:
            return ""
        try:
            return self._offer_medium(seeds) if self._pxe is None else self._offer_pxe(seeds)
        except OSError as error:
            raise ConfigError(
                f"{self._folder}: {error.strerror}", hint="free space for the medium: df -h"
            ) from error
        except ValueError as error:
            raise ConfigError(
                f"PXE cannot be served: {error}",
                hint="name the interface as ip -br address does, and keep the site in a folder "
                "whose path has letters, digits and ._/- alone",
            ) from error

    def _offer_medium(self, seeds: Sequence[Seed]) -> str:
        made = remaster(
            self._medium.iso, self._medium.layout, for_many(self._programs, seeds), self._folder
        )
        # Not to be guessed: a seed has the name, addresses and serials of servers.
        path = f"/media/{secrets.token_hex(16)}.iso"
        self._http.publish(path, Content(file=made))
        return self.server.url + path

    def _offer_pxe(self, seeds: Sequence[Seed]) -> str:
        if self._pxe is None:
            raise AssertionError("served by HTTP alone")
        kernel, initrd = extract_kernel(self._medium.iso, self._medium.layout, self._folder)
        iso = f"/media/{secrets.token_hex(16)}.iso"
        folders = {secrets.token_hex(16): seed for seed in seeds}
        images = {folder: self._pxe.images[seed.name] for folder, seed in folders.items()}
        texts = scripts(self._medium.layout, self.server, images, self.server.url + iso)
        for folder, seed in folders.items():
            texts |= {f"/seeds/{folder}/{name}": text for name, text in seed.files.items()}
        for path, text in texts.items():
            self._http.publish(path, Content(text=text.encode(), kind="text/plain"))
        self._http.publish(iso, Content(file=self._medium.iso))
        self._http.publish(KERNEL, Content(file=kernel))
        self._http.publish(INITRD, Content(file=initrd))
        self._stack.enter_context(
            dnsmasq(self._pxe.network, self.server, list(images.values()), self._folder)
        )
        # Only now: of two commands that begin at the same moment, one at least hears the other.
        _require_alone(self._pxe.network.interface, self.server, list(images.values()))
        return ""


def _require_alone(interface: str, server: Server, images: Sequence[NodeImage]) -> None:
    """No other machine serves these servers by PXE.

    Raises:
        Refused: one does; names it.
        ConfigError: the LAN cannot be asked.
    """
    names = {mac: image.name for image in images for mac in image.macs}
    with on_interface(interface) as wire:
        found = other_servers(wire, names, str(server.address))
    if found:
        told = {names[mac]: address for mac, address in found.items()}
        first, *others = (f"{name}: {address} serves it by PXE" for name, address in told.items())
        raise Refused(
            f"{first}: another machine runs appliance node image for it",
            hint="ask who runs it there; when that has ended: the same command again",
            details=others,
        )


@contextmanager
def dnsmasq(
    network: PxeNetwork, server: Server, images: Sequence[NodeImage], folder: Path
) -> Iterator[None]:
    """Run dnsmasq for the length of the block; it ends with this process, however that ends.

    Raises:
        CommandFailed: it is missing, refuses its configuration, or does not start.
        ConfigError: iPXE's loaders are not on this machine.
    """
    tftp = folder / "tftp"
    tftp.mkdir()
    for name in LOADERS.values():
        shutil.copyfile(loader(name), tftp / name)
    file = folder / "dnsmasq.conf"
    file.write_text(dnsmasq_configuration(network, server, str(tftp), images), "utf-8")
    run(["dnsmasq", "--test", f"--conf-file={file}"])
    found = find_program("dnsmasq")
    if found is None:
        raise AssertionError("it was just started")
    log = folder / "dnsmasq.log"
    with log.open("w") as out:
        words = ["setpriv", "--pdeathsig", "TERM"]
        words += [str(found), "--keep-in-foreground", f"--conf-file={file}", "--log-facility=-"]
        process = subprocess.Popen(  # noqa: S603 - words of ours
            words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_STARTS_SECONDS)
            raise CommandFailed(
                "dnsmasq ended at once: "
                + (log.read_text("utf-8", "replace").strip().splitlines() or ["no output"])[-1],
                hint="see who else serves DHCP or TFTP here: ss -lunp",
            )
        yield
    finally:
        process.terminate()
        try:
            process.wait(_ENDS_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def loader(name: str) -> Path:
    """The loader of iPXE on this machine.

    Raises:
        ConfigError: it is not installed.
    """
    for folder in LOADER_FOLDERS:
        if (found := Path(folder, name)).is_file():
            return found
    raise ConfigError(
        f"this machine has no {name} of iPXE", hint="install iPXE: sudo apt-get install ipxe"
    )
