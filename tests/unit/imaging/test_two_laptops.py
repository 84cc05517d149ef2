"""Two machines install one server by PXE: the second is refused, or ends with the first's name."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.adapters.imaging import serving
from appliance.adapters.imaging.other_server import other_servers
from appliance.adapters.imaging.server import Reports
from appliance.errors import Refused, StepNotVerified
from appliance.model.node.imaging.boot_question import boot_file, question, server_of
from appliance.model.node.imaging.pxe import PxeNetwork
from appliance.model.node.imaging.seed import Seed
from tests.unit.imaging import bench
from tests.unit.imaging.fake_rack import Batch, Box, FakeRack

OWN, OTHER = str(bench.SERVER.address), "198.18.7.99"
MAC = "00:00:5e:00:53:21"
LOOKED = {"look"}
Answer = Callable[[bytes], bytes]


def offer(asked: bytes, file: bytes, *, message: int = 2, as_option: bool = False) -> bytes:
    """What a DHCP server answers to a question, an IP packet each."""
    head = bytearray(asked[28 : 28 + 236])
    head[0] = 2
    if not as_option:
        head[108:236] = file.ljust(128, b"\0")
    options = b"\x63\x82\x53\x63" + bytes([53, 1, message, 0])
    options += bytes([67, len(file)]) + file if as_option else b""
    udp = struct.pack("!HHHH", 67, 68, 0, 0) + bytes(head) + options + b"\xff"
    return asked[:12] + IPv4Address(OTHER).packed + asked[16:20] + udp


def script_of(address: str) -> bytes:
    return f"http://{address}:8480/pxe/boot.ipxe".encode()


class Lan:
    """A LAN with DHCP servers; time passes while nothing arrives."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = answers
        self._waiting: list[bytes] = []
        self.asked: list[bytes] = []
        self.now = 0.0

    def send(self, packet: bytes) -> None:
        self.asked.append(packet)
        self._waiting += [answer(packet) for answer in self._answers]

    def receive(self, seconds: float) -> bytes:
        if self._waiting:
            return self._waiting.pop(0)
        self.now += seconds
        return b""

    def others(self) -> dict[str, str]:
        return other_servers(self, [MAC], OWN, 3.0, lambda: self.now)


@pytest.mark.parametrize("as_option", [False, True])
def test_another_machine_that_serves_the_server_is_named(as_option: bool) -> None:
    lan = Lan(lambda asked: offer(asked, script_of(OTHER), as_option=as_option))
    assert lan.others() == {MAC: OTHER}


ANSWERS: dict[str, Answer] = {
    "its own dnsmasq": lambda asked: offer(asked, script_of(OWN)),
    "the LAN's DHCP server": lambda asked: offer(asked, b""),
    "another product's PXE": lambda asked: offer(asked, b"pxelinux.0"),
    "a script of no address": lambda asked: offer(asked, b"http://boot.example/pxe/boot.ipxe"),
    "an acknowledgement": lambda asked: offer(asked, script_of(OTHER), message=5),
    "an answer to somebody else": lambda _: offer(question(MAC, 1), script_of(OTHER)),
    "an answer for another MAC": lambda asked: offer(
        question("00:00:5e:00:53:22", struct.unpack_from("!I", asked, 32)[0]), script_of(OTHER)
    ),
    "a cut packet": lambda asked: offer(asked, script_of(OTHER))[:200],
    "the question itself": lambda asked: asked,
}


@pytest.mark.parametrize("case", ANSWERS)
def test_nobody_is_named_for_what_is_no_answer_of_another_command(case: str) -> None:
    lan = Lan(ANSWERS[case])
    assert lan.others() == {}
    assert len(lan.asked) == 3, "one that is lost is sent again"


def test_a_question_is_a_whole_ip_packet_with_a_right_checksum() -> None:
    asked = question(MAC, 7)
    assert struct.unpack_from("!H", asked, 2) == (len(asked),)
    total = sum(struct.unpack("!10H", asked[:20]))
    assert (total & 0xFFFF) + (total >> 16) == 0xFFFF
    assert struct.unpack_from("!HHH", asked, 20) == (68, 67, len(asked) - 20)


@given(st.binary(max_size=700), st.integers(0, 700))
def test_a_hostile_answer_is_no_answer(noise: bytes, at: int) -> None:
    good = offer(question(MAC, 7), script_of(OTHER))
    assert server_of(boot_file(noise, MAC, 7)) == ""
    assert server_of(boot_file(good[:at] + noise, MAC, 7)) in ("", OTHER)


def test_a_command_that_hears_another_one_refuses_before_any_server_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lan = Lan(lambda asked: offer(asked, script_of(OTHER)))
    begun: list[str] = []

    @contextlib.contextmanager
    def on_interface(interface: str) -> Iterator[Lan]:
        assert begun == ["dnsmasq"], "of two that begin together, neither would hear the other"
        begun.append(interface)
        yield lan

    @contextlib.contextmanager
    def dnsmasq(*_: object) -> Iterator[None]:
        begun.append("dnsmasq")
        try:
            yield
        finally:
            begun.append("ended")

    monkeypatch.setattr(serving, "extract_kernel", lambda *_: (tmp_path / "k", tmp_path / "i"))
    monkeypatch.setattr(serving, "on_interface", on_interface)
    monkeypatch.setattr(serving, "dnsmasq", dnsmasq)
    image = bench.image()
    medium = serving.Medium(tmp_path / "u.iso", "ubuntu", tmp_path / "media")
    network = PxeNetwork("eno1", IPv4Network("198.18.7.0/24"), "proxy")
    pxe = serving.Pxe(network, {"w1": image})
    serves = serving.HttpServing(IPv4Address("127.0.0.1"), 0, medium, bench.PROGRAMS, pxe)
    with (
        pytest.raises(Refused, match=f"w1: {OTHER} serves it by PXE"),
        serves.open({}, lambda _name, _report: None) as served,
    ):
        served.offer([bench.seed(image)])
    assert begun == ["dnsmasq", "eno1", "ended"]


def _meanwhile(monkeypatch: pytest.MonkeyPatch, change: Callable[[], None]) -> None:
    told = Batch.offer

    def meanwhile(batch: Batch, seeds: Sequence[Seed]) -> str:
        change()
        return told(batch, seeds)

    monkeypatch.setattr(Batch, "offer", meanwhile)


def test_a_server_that_was_switched_on_by_its_turn_keeps_its_power(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The installer of another command runs on it; it answers nothing yet."""
    rack = FakeRack(2)
    server = rack.servers["w1"]
    _meanwhile(monkeypatch, lambda: setattr(server, "power", "On"))
    with pytest.raises(StepNotVerified) as caught:
        rack.image(via="pxe")
    assert caught.value.message == "1 of 2 servers are not installed: w1"
    assert "reports power On; it was off when the plan was made" in caught.value.details[0]
    assert (server.power, set(server.orders) - LOOKED) == ("On", set())
    assert rack.servers["w2"].content == "system"


def test_an_installer_of_another_run_is_named_and_never_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rack = FakeRack(2, {"w1": "silent"})
    address = rack.site.node("w1").ip
    rack.strange[address] = 4
    booted = Box.turn_on

    def turn_on(box: Box) -> None:
        booted(box)
        if box.name == "w1":
            rack.strange[address] += 1

    monkeypatch.setattr(Box, "turn_on", turn_on)
    with pytest.raises(StepNotVerified) as caught:
        rack.image(via="pxe")
    assert "with the token of another run" in caught.value.details[0]
    assert "w1" in rack.notes
    assert set(rack.known) == {"w2"}


def test_old_reports_of_another_run_say_nothing_of_this_boot() -> None:
    rack = FakeRack(1)
    rack.strange[rack.site.node("w1").ip] = 4
    rack.image(via="pxe")
    assert set(rack.known) == {"w1"}


def test_reports_of_another_token_count_by_their_sender_alone() -> None:
    reports = Reports({"5e" * 16: "w1"})
    for _ in range(3):
        assert reports.take("6e" * 16, b"{}", "198.18.7.21") == 404
    assert reports.strange("198.18.7.21") == 3
    assert reports.strange("198.18.7.22") == 0
    assert reports.of("w1").last == ""
    for number in range(2000):
        reports.take("6e" * 16, b"{}", str(number))
    assert reports.strange("1999") == 0
