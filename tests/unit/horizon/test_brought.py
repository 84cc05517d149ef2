"""What the organisation brings ends too: its registry's certificate, and its CAs."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.support import served
from appliance.adapters.support.brought import read_brought
from appliance.model.site.settings import Site
from appliance.model.upkeep.horizon.brought import Brought
from appliance.model.upkeep.horizon.endings import due
from tests import samples
from tests.unit.horizon.test_endings import NOW, at, listed, named
from tests.unit.horizon.test_served import listening
from tests.unit.probe.test_wire import make_certificate


def site(port: int, ca: Path, **more: Any) -> Site:
    external = {"ca": str(ca), "address": "127.0.0.1"}
    return samples.site(registry=f"registry.corp.test:{port}", external_registry=external, **more)


def test_the_registry_and_both_cas_are_rows_of_their_own(tmp_path: Path) -> None:
    path = make_certificate(tmp_path, "corp")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    with listening(context) as port:
        of = site(port, path, certificates={"organisation_ca": str(path)})
        found = tuple(read_brought(of))
    assert [(one.kind, one.what, one.unknown) for one in found] == [
        ("certificate", f"the organisation's registry, as served: registry.corp.test:{port}", ""),
        ("authority", "CA of the organisation's registry: CN=corp", ""),
        ("authority", "CA of the organisation: CN=corp", ""),
    ]
    assert len({one.ends for one in found}) == 1
    assert found[0].ends


def test_what_cannot_be_read_says_why(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("no certificate")
    missing = str(tmp_path / "missing.pem")
    with listening(None) as port:
        of = site(port, tmp_path / "empty.pem", certificates={"organisation_ca": missing})
        registry, ca, own = read_brought(of)
    assert "showed this machine no certificate" in registry.unknown
    assert "holds no PEM certificate" in ca.unknown
    assert "missing.pem is not readable" in own.unknown
    assert [one.ends for one in (registry, ca, own)] == ["", "", ""]


def test_a_site_that_is_brought_nothing_asks_nobody() -> None:
    assert tuple(read_brought(samples.site())) == ()


def test_a_server_that_sends_one_byte_now_and_then_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(served, "_ALL_SECONDS", 0.4)
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                # The header of a handshake record of 16 KB, and then its bytes one by one.
                connection.sendall(b"\x16\x03\x03\x40\x00\x02")
                while not ended.wait(0.05):
                    connection.sendall(b"\x00")

        thread = threading.Thread(target=drip)
        thread.start()
        ends, why = served.shown_end("127.0.0.1", server.getsockname()[1], "registry.corp.test")
        ended.set()
        thread.join(10)
    assert ends == ""
    assert why


def test_a_row_that_ends_counts_and_an_unknown_one_is_named() -> None:
    found = listed(
        brought=(
            Brought("certificate", "the organisation's registry, as served: r:5000", at(10)),
            Brought("authority", "CA of the organisation: CN=corp", unknown="it is not there"),
        )
    )
    registry = named(found, "organisation's registry")
    assert (registry.where, registry.ends is not None) == ("site", True)
    assert registry in due(found, NOW, 30)
    own = named(found, "CA of the organisation")
    assert (own.ends, own.unknown, own.kind) == (None, "it is not there", "authority")
