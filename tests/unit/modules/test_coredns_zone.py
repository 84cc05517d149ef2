"""Our block in the Corefile: put in once, replaced, taken out; the rest is left alone."""

from __future__ import annotations

from tests.unit.modules.loading import load

with_zone = load("coredns_zone").with_zone

COREFILE = """.:53 {
    errors
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       ttl 30
    }
    forward . /etc/resolv.conf
    reload
}
"""


def test_the_block_is_put_in_and_the_rest_stays() -> None:
    made = with_zone(COREFILE, "rack.example", "198.51.100.11")
    assert made.startswith(COREFILE)
    assert "rack.example:53 {\n    errors\n    cache 30\n    forward . 198.51.100.11\n}\n" in made


def test_a_second_time_changes_nothing() -> None:
    once = with_zone(COREFILE, "rack.example", "198.51.100.11")
    assert with_zone(once, "rack.example", "198.51.100.11") == once


def test_another_server_takes_its_place() -> None:
    once = with_zone(COREFILE, "rack.example", "198.51.100.11")
    other = with_zone(once, "rack.example", "198.51.100.12")
    assert "198.51.100.11" not in other
    assert other.count("rack.example:53") == 1


def test_it_can_be_taken_out_again_and_what_others_wrote_stays() -> None:
    once = with_zone(COREFILE, "rack.example", "198.51.100.11") + "\nother.example:53 {\n}\n"
    assert with_zone(once, "", "") == COREFILE + "\nother.example:53 {\n}\n"
