"""Judges cards: GPUs with their PCIe links, and network ports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from appliance.model.checks.hardware.expected import Expectation
from appliance.model.checks.hardware.findings import Finding, failed, judged, noted, passed, unknown
from appliance.model.checks.hardware.found import Gpu, Machine, Nic

_RESEAT = "power off, reseat the card and its riser, and look at the slot's setting in the BIOS"
_DRIVER = "install the driver: appliance install --until gpu; then qualify it again, by the probe"
_LOAD = "an idle GPU may slow its link: put load on it, then inspect it again"


def gpus(wanted: Expectation, machine: Machine) -> Iterator[Finding]:
    """Every GPU: which, and how it is attached. Their number: gpu_number.py."""
    for gpu in machine.gpus or ():
        yield from _gpu(wanted, machine, gpu)


def _gpu(wanted: Expectation, machine: Machine, gpu: Gpu) -> Iterator[Finding]:
    fact, cards = f"gpu:{gpu.address}", wanted.cards()
    known = wanted.card_of(gpu.pci_id)
    if cards:
        names = " or ".join(cards)
        if gpu.pci_id is None:
            why = machine.why(f"gpus.{gpu.address}.pci_id")
            yield unknown(fact, names, why, "inspect it by the probe")
        else:
            found = f"{known[0] if known else 'a GPU that no file names'} ({gpu.pci_id})"
            action = "compare the order with the card; a new card is one entry of hardware/gpus.yml"
            yield judged(fact, names, found, action, good=known is not None and known[0] in cards)
    yield _width(gpu, machine, known[1].link_width if known else None)
    yield _speed(gpu, machine)
    if gpu.above_4g is None:
        why = machine.why(f"gpus.{gpu.address}.above_4g")
        yield unknown(f"{fact}:above-4g", "a window above 4 GiB", why, "inspect it by the probe")
    else:
        found = "above 4 GiB" if gpu.above_4g else "below 4 GiB"
        action = "switch Above 4G Decoding on in the BIOS"
        yield judged(f"{fact}:above-4g", "a window above 4 GiB", found, action, good=gpu.above_4g)
    yield _ecc(machine, gpu)


def _ecc(machine: Machine, gpu: Gpu) -> Finding:
    """Memory errors; only NVIDIA's driver tells them."""
    fact, path = f"gpu:{gpu.address}:ecc", f"gpus.{gpu.address}.ecc_uncorrected"
    if gpu.ecc_uncorrected is not None:
        found = f"{gpu.ecc_uncorrected} uncorrected errors"
        action = "reset the GPU; replace it if the errors come again"
        return judged(fact, "no errors", found, action, good=gpu.ecc_uncorrected == 0)
    if gpu.ecc_on is False:
        action = "to count errors: nvidia-smi -e 1 on the node, then start it again"
        return noted(fact, "ECC is off, so no error is counted", action)
    return unknown(fact, "no errors", machine.why(path), _DRIVER)


def _width(gpu: Gpu, machine: Machine, by_card: int | None) -> Finding:
    fact, most = f"gpu:{gpu.address}:width", by_card or gpu.max_link_width
    path = f"gpus.{gpu.address}.link_width"
    if not most or gpu.link_width is None:
        return unknown(fact, f"x{most or '?'}", machine.why(path), "inspect it by the probe")
    if gpu.link_width >= most:
        return passed(fact, f"x{most}", f"x{gpu.link_width}")
    if gpu.busy:
        return failed(fact, f"x{most}", f"x{gpu.link_width} under load", _RESEAT)
    state = "idle" if gpu.busy is False else "not known to be under load"
    return unknown(fact, f"x{most}", f"x{gpu.link_width}, {state}", _LOAD)


def _speed(gpu: Gpu, machine: Machine) -> Finding:
    fact, most = f"gpu:{gpu.address}:speed", gpu.max_link_gts
    path = f"gpus.{gpu.address}.link_gts"
    if not most or gpu.link_gts is None:
        return unknown(fact, f"{most or '?'} GT/s", machine.why(path), "inspect it by the probe")
    expected, found = f"{most:g} GT/s", f"{gpu.link_gts:g} GT/s"
    if gpu.link_gts >= most:
        return passed(fact, expected, found)
    if gpu.busy:
        return failed(fact, expected, f"{found} under load", _RESEAT)
    return unknown(fact, expected, f"{found}, not known to be under load", _LOAD)


def nics(wanted: Expectation, machine: Machine) -> Iterator[Finding]:
    """The delivered network cards: driver, and the speed of each port with a link."""
    for one in wanted.model.reference.nics:
        fact = f"nic:{one.model}"
        expected = f"a link of {_gbit(one.speed_mbps)}"
        if machine.nics is None:
            yield unknown(fact, expected, machine.why("nics"), "inspect it by the probe")
            continue
        ports = [nic for nic in machine.nics if nic.driver in (None, one.driver)]
        if not ports:
            drivers = ", ".join(sorted({str(nic.driver) for nic in machine.nics})) or "none"
            action = "reseat the card; check that the slot is on in the BIOS"
            yield failed(fact, f"a card with driver {one.driver}", f"drivers: {drivers}", action)
            continue
        linked = [nic for nic in ports if nic.link]
        if not linked:
            unread = any(nic.link is None for nic in ports)
            why = machine.why(f"nics.{ports[0].name}.link") if unread else ""
            action = "plug in the cable, set the port up, and check the switch"
            names = ", ".join(nic.name for nic in ports)
            if unread:
                yield unknown(fact, expected, why, "inspect it by the probe")
            else:
                yield failed(fact, expected, f"no link on {names}", action)
        for nic in linked:
            yield _link(machine, nic, one.speed_mbps)
    yield from _recorded_ids(wanted, machine)


def _link(machine: Machine, nic: Nic, least: int) -> Finding:
    fact, expected = f"nic:{nic.name}", _gbit(least)
    if nic.speed_mbps is None:
        why = machine.why(f"nics.{nic.name}.speed_mbps")
        return unknown(fact, expected, why, "inspect it by the probe")
    action = "check cable, transceiver and the port of the switch"
    if nic.most_mbps is not None and nic.most_mbps < least:
        action = f"replace the card: its port can do {_gbit(nic.most_mbps)} only"
    return judged(fact, expected, _gbit(nic.speed_mbps), action, good=nic.speed_mbps >= least)


def _recorded_ids(wanted: Expectation, machine: Machine) -> Iterator[Finding]:
    """The ports by PCI id, where a machine of the model was read; further ports are a note."""
    recorded = wanted.model.shows.nic_ids
    if not recorded or machine.nics is None:
        return
    want, seen = Counter(recorded), Counter(nic.pci_id for nic in machine.nics if nic.pci_id)
    expected, found = _counted(want), _counted(seen)
    if not seen and machine.nics:
        why = machine.why(f"nics.{machine.nics[0].name}.pci_id")
        yield unknown("nics", expected, why, "inspect it by the probe")
    elif want - seen:
        action = "reseat the card; check that the slot is on in the BIOS; compare the order"
        yield failed("nics", expected, found, action)
    elif seen - want:
        yield noted("nics", f"{found}; the machine that was read has {expected}")
    else:
        yield passed("nics", expected, found)


def _counted(ids: Counter[str]) -> str:
    return ", ".join(f"{many} x {one}" for one, many in sorted(ids.items())) or "none"


def _gbit(mbps: int) -> str:
    return f"{mbps / 1000:g} Gb/s"
