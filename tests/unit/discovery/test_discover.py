"""The order of a first contact: keys, a question, a look, a question, one line on each server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from appliance.errors import ApplianceError, NodeUnreachable, Refused
from appliance.model.checks.discovery.draft import Drafted, DraftNode
from appliance.model.checks.discovery.found import Failed, Found
from appliance.model.checks.discovery.pins import Pins
from appliance.model.checks.discovery.targets import Kind, Target, targets
from appliance.workflows.site.discover import MOST_REASONS, Contacts, Discovery, discover
from tests.unit.discovery.made_up import machine, profiles, wishes


@dataclass
class World:
    """All ports in one: machines, the kept pins, a person; ``said`` is what happened, in order.

    Attributes:
        machines: word of a target -> what it tells.
        closed: those that do not take the site's key.
        dead: those that show no key.
        other: those that show another key than the usual.
        stubborn: those that do not take the line.
        no_to: the question that is answered with no.
    """

    machines: dict[str, Found]
    closed: set[str] = field(default_factory=set)
    dead: set[str] = field(default_factory=set)
    other: set[str] = field(default_factory=set)
    stubborn: set[str] = field(default_factory=set)
    no_to: str = ""
    kept: dict[Target, str] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)

    def keys(self, asked: Sequence[Target]) -> dict[Target, str | Failed]:
        self.said += ["keys"] * bool(asked)
        return {
            one: Failed("no answer")
            if str(one) in self.dead
            else f"{'other' if str(one) in self.other else 'key'} of {one}"
            for one in asked
        }

    def look(
        self, asked: Sequence[Target], pins: Pins, password: str | None
    ) -> dict[Target, Found | Failed]:
        assert set(asked) <= set(pins)
        self.said.append(f"read {','.join(map(str, asked))} with {password or 'the key'}")
        found: dict[Target, Found | Failed] = {}
        for one in asked:
            if str(one) in self.closed and password != "right":  # noqa: S105
                found[one] = Failed("the login was refused", refuses_key=True)
            else:
                has_key = one.kind == "ssh" and password is None
                found[one] = replace(self.machines[str(one)], has_key=has_key)
        return found

    def read_as_root(
        self, asked: Sequence[Target], pins: Pins, password: str
    ) -> dict[Target, Found | Failed]:
        assert password == "right"  # noqa: S105
        assert set(asked) <= set(pins)
        self.said.append(f"read {','.join(map(str, asked))} as root")
        return {one: replace(self.machines[str(one)], has_key=True) for one in asked}

    def let_in(
        self, asked: Sequence[Target], pins: Pins, password: str
    ) -> dict[Target, Failed | None]:
        assert set(asked) <= set(pins)
        assert password == "right"  # noqa: S105
        self.said.append(f"let in {','.join(map(str, asked))}")
        self.closed -= {str(one) for one in asked} - self.stubborn
        return {
            one: Failed("the disk is full") if str(one) in self.stubborn else None for one in asked
        }

    def read(self, *asked: Any) -> Any:
        return self.look(*asked) if asked else self.kept

    def write(self, pins: Pins) -> None:
        self.said.append(f"keep {len(pins)}")
        self.kept = dict(pins)

    def where(self) -> str:
        return "discovery.json"

    def confirm_keys(self, keys: Pins) -> None:
        self.said.append(f"confirm {','.join(map(str, keys))}")
        if self.no_to == "keys":
            raise Refused("no")

    def password(self, kind: Kind) -> str:
        self.said.append(f"password {kind}")
        return "right"

    def confirm_change(self, drafted: Drafted, to_let_in: Sequence[DraftNode]) -> None:
        names = ",".join(node.name for node in drafted.nodes)
        self.said.append(f"draft {names}; let in {','.join(one.name for one in to_let_in)}")
        if self.no_to == "change":
            raise Refused("no")

    def note(self, sentence: str) -> None:
        self.said.append(f"note {sentence}")

    def discovers(self, *, dry_run: bool = False, **wished: Any) -> Discovery:
        asked = targets(self.machines)
        contacts = Contacts(self, self, self, self)
        return discover(asked, profiles(), wishes(wished), contacts, dry_run=dry_run)


def rack(**changes: Any) -> World:
    made = {
        "198.51.100.11": machine("198.51.100.11", serial="A"),
        "198.51.100.12": machine("198.51.100.12", serial="B", gpus=4),
        "bmc:203.0.113.12": machine("bmc:203.0.113.12", serial="B"),
    }
    return World(**{"machines": made, "closed": {"198.51.100.11", "198.51.100.12"}, **changes})


FIRST = [
    "keys",
    "keys",
    "confirm 198.51.100.11,198.51.100.12,bmc:203.0.113.12",
    "keep 3",
    "read 198.51.100.11,198.51.100.12 with the key",
    "password ssh",
    "read 198.51.100.11,198.51.100.12 with right",
    "password bmc",
    "read bmc:203.0.113.12 with right",
    "draft cp1,gpu1; let in cp1,gpu1",
    "let in 198.51.100.11,198.51.100.12",
]


def test_no_password_before_the_keys_and_no_change_before_the_question() -> None:
    world = rack()
    found = world.discovers()
    assert world.said == FIRST
    assert found.added == ("cp1", "gpu1")
    assert found.bmc_password == "right"  # noqa: S105
    assert set(found.pins) == set(world.kept)


def test_a_second_run_asks_for_nothing_that_is_done() -> None:
    world = rack()
    world.discovers()
    world.said.clear()
    assert world.discovers().added == ()
    assert not [said for said in world.said if said.startswith(("confirm", "keep", "let in"))]
    assert "password ssh" not in world.said


@pytest.mark.parametrize("closed", [(), ("198.51.100.12",), ("198.51.100.11", "198.51.100.12")])
def test_a_password_that_sudo_asks_for_is_asked_once_and_kept(closed: tuple[str, ...]) -> None:
    world = rack(closed=set(closed))
    del world.machines["bmc:203.0.113.12"]
    for name, one in world.machines.items():
        world.machines[name] = replace(one, sudo_asks=True)
    found = world.discovers()
    assert found.sudo_password == "right"  # noqa: S105
    assert [said for said in world.said if said.startswith("password")] == ["password ssh"]
    with_key = [one for one in world.machines if one not in closed]
    as_root = [f"read {','.join(with_key)} as root"] if with_key else []
    assert [said for said in world.said if said.endswith("as root")] == as_root


def test_where_sudo_asks_for_nothing_no_password_is_kept() -> None:
    assert rack().discovers().sudo_password is None


def test_a_run_that_was_cut_goes_on_with_those_that_lack_the_key() -> None:
    world = rack(stubborn={"198.51.100.12"})
    with pytest.raises(ApplianceError, match=r"gpu1 \(198.51.100.12\): the disk is full"):
        world.discovers()
    world.stubborn.clear()
    assert world.discovers().added == ("gpu1",)


@pytest.mark.parametrize("other", ["198.51.100.12", "bmc:203.0.113.12"])
def test_a_key_that_changed_is_refused_before_any_login(other: str) -> None:
    world = rack()
    world.discovers()
    world.said.clear()
    world.other.add(other)
    with pytest.raises(Refused, match=rf"{other} shows another key.*no password was sent"):
        world.discovers()
    assert world.said == ["keys", "keys"]
    assert f"key of {other}" in world.kept.values()


@pytest.mark.parametrize(("no_to", "last"), [("keys", FIRST[2]), ("change", FIRST[9])])
def test_a_no_ends_it_there(no_to: str, last: str) -> None:
    world = rack(no_to=no_to)
    with pytest.raises(Refused):
        world.discovers()
    assert world.said == FIRST[: FIRST.index(last) + 1]


def test_a_dry_run_keeps_no_pin_and_lets_nobody_in() -> None:
    world = rack()
    world.discovers(dry_run=True)
    assert world.said == [said for said in FIRST if not said.startswith(("keep", "let in"))]
    assert world.kept == {}


def test_who_does_not_answer_is_named_and_holds_nobody_up() -> None:
    world = rack(dead={"198.51.100.12"})
    found = world.discovers(plan="198.51.100.12/24")
    assert "note 198.51.100.12 is left out: no answer" in world.said
    assert [node.name for node in found.drafted.nodes] == ["cp1", "sys1"]


def test_a_blank_machine_does_not_get_the_address_of_one_that_was_not_read() -> None:
    world = rack(closed={"198.51.100.12"})
    world.password = lambda kind: f"no {kind}"  # type: ignore[method-assign]
    found = world.discovers(plan="198.51.100.12/24")
    assert [str(node.address) for node in found.drafted.nodes] == [
        "198.51.100.11/24",
        "198.51.100.13/24",
    ]


def test_many_silent_addresses_are_one_range_and_some_reasons() -> None:
    made = {f"198.51.100.{n}": machine(f"198.51.100.{n}", serial=str(n)) for n in range(1, 61)}
    world = World(made, dead=set(made) - {"198.51.100.1"})
    world.discovers()
    notes = [said for said in world.said if said.startswith("note")]
    assert notes[0] == (
        "note 59 addresses gave nothing and are left out: 198.51.100.2-198.51.100.60"
    )
    assert len(notes) == 1 + MOST_REASONS


@pytest.mark.parametrize("nothing", [{"dead": {"198.51.100.11"}}, {"closed": {"198.51.100.11"}}])
def test_nobody_at_all_is_an_error(nothing: dict[str, set[str]]) -> None:
    world = World({"198.51.100.11": machine("198.51.100.11")}, **nothing)  # type: ignore[arg-type]
    if "closed" in nothing:
        world.password = lambda kind: f"no {kind}"  # type: ignore[method-assign]
    with pytest.raises(NodeUnreachable):
        world.discovers()
    assert not world.said[-1].startswith("let in")


def test_a_duplicate_does_not_get_the_key() -> None:
    made = {name: machine(name, serial="A") for name in ("198.51.100.11", "198.51.100.12")}
    world = World(made, closed=set(made))
    world.discovers()
    assert world.said[-1] == "let in 198.51.100.11"
