"""Our block in the Corefile: put in once, replaced, taken out; the rest is left alone."""

from __future__ import annotations

from typing import Any

from tests.unit.modules.loading import load

module = load("coredns_zone")
with_zone, restart = module.with_zone, module.restart

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


def _deployment(annotations: dict[str, str] | None) -> dict[str, Any]:
    return {"spec": {"template": {"metadata": {"annotations": annotations}}}}


def _annotations(patch: Any) -> dict[str, str]:
    found: dict[str, str] = patch["spec"]["template"]["metadata"]["annotations"]
    return found


def test_pods_are_replaced_once_for_each_corefile_of_ours() -> None:
    one = with_zone(COREFILE, "rack.example", "198.51.100.11")
    other = with_zone(COREFILE, "rack.example", "198.51.100.12")
    first = _annotations(restart(_deployment(None), one))
    assert restart(_deployment(first), one) is None
    assert _annotations(restart(_deployment(first), other)) != first


def test_pods_of_a_corefile_that_never_was_ours_are_left_alone() -> None:
    assert restart(_deployment(None), COREFILE) is None
    assert restart(None, with_zone(COREFILE, "rack.example", "198.51.100.11")) is None


def test_pods_are_replaced_when_our_block_is_taken_out() -> None:
    once = with_zone(COREFILE, "rack.example", "198.51.100.11")
    ours = _annotations(restart(_deployment(None), once))
    assert _annotations(restart(_deployment(ours), COREFILE)) == dict.fromkeys(ours)
