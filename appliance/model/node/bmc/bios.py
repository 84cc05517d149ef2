"""BIOS settings of one machine: what was found, what its model asks for, and what forbids a change.

What must not be here: asking a BMC, and when a node may be restarted
(:mod:`appliance.model.node.bmc.restart`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from appliance.model.node.bmc.bios_registry import AttributeRule, BiosValue
from appliance.model.state.plan import Refusal

State = Literal["as wanted", "pending", "differs"]
_NAMED: Final = 5
_LONGEST: Final = 60


@dataclass(frozen=True)
class BiosState:
    """What a BMC tells of its machine's BIOS settings.

    Attributes:
        attributes: those in force: name -> value.
        pending: those that the next start takes, and that differ from the ones in force.
        rules: of the attribute registry; None where none was read.
        no_rules: why not.
        cannot: why settings cannot be changed by this BMC; empty where they can.
        messages: what the BMC says of the last change, one line each.
        started: whether the machine's start is over, as far as the BMC tells; None: it does not.
    """

    attributes: Mapping[str, BiosValue] = field(default_factory=dict)
    pending: Mapping[str, BiosValue] = field(default_factory=dict)
    rules: Mapping[str, AttributeRule] | None = None
    no_rules: str = ""
    cannot: str = ""
    messages: tuple[str, ...] = ()
    started: bool | None = None

    def rule(self, name: str) -> AttributeRule:
        """The rule of an attribute; one that says nothing where there is none."""
        return (self.rules or {}).get(name, AttributeRule(name))

    def shown(self, name: str) -> str:
        """The value in force, for people; a password is never shown."""
        if self.rule(name).is_secret:
            return "(not shown)"
        return word(self.attributes[name]) if name in self.attributes else "no such attribute"


@dataclass(frozen=True)
class Wish:
    """One setting that the model's file asks for.

    Attributes:
        why: the reason, from the model's file.
    """

    name: str
    value: BiosValue
    why: str = ""


@dataclass(frozen=True)
class Setting:
    """One setting of one machine, found and wanted, for people."""

    name: str
    found: str
    wanted: str
    why: str
    state: State
    label: str = ""
    menu: str = ""

    def words(self) -> str:
        """What is to be done, on one line."""
        end = f" ({self.why})" if self.why else ""
        return f"{self.name}: {self.found} -> {self.wanted}{end}"


def word(value: BiosValue) -> str:
    """A value for people, one short line; a text as it is."""
    text = value if isinstance(value, str) else json.dumps(value)
    shown = "".join(one if " " <= one <= "~" else "?" for one in text[:_LONGEST])
    return shown or '""'


def same(found: BiosValue, wanted: BiosValue) -> bool:
    """Whether two values are one: true is not 1."""
    return type(found) is type(wanted) and found == wanted


def settings(state: BiosState, wishes: tuple[Wish, ...]) -> tuple[Setting, ...]:
    """Each setting that the model asks for, beside what was found."""
    return tuple(
        Setting(
            wish.name,
            state.shown(wish.name),
            word(wish.value),
            wish.why,
            _state(state, wish),
            state.rule(wish.name).label,
            state.rule(wish.name).menu,
        )
        for wish in wishes
    )


def _state(state: BiosState, wish: Wish) -> State:
    found = state.attributes.get(wish.name)
    if wish.name in state.pending:
        return "pending" if same(state.pending[wish.name], wish.value) else "differs"
    return "as wanted" if wish.name in state.attributes and same(found, wish.value) else "differs"


def to_send(state: BiosState, wishes: tuple[Wish, ...]) -> dict[str, BiosValue]:
    """What has to be sent: neither in force nor waiting for the next start."""
    return {wish.name: wish.value for wish in wishes if _state(state, wish) == "differs"}


def not_taken(state: BiosState, wishes: tuple[Wish, ...]) -> tuple[str, ...]:
    """The settings that are not in force, in words."""
    return tuple(
        f"{wish.name}: found {state.shown(wish.name)}, expected {word(wish.value)}"
        for wish in wishes
        if wish.name not in state.attributes or not same(state.attributes[wish.name], wish.value)
    )


def refusals(
    node: str, state: BiosState, wishes: tuple[Wish, ...], *, unchecked: bool = False
) -> Iterator[Refusal]:
    """What forbids to give a machine these settings.

    Args:
        node: its name.
        state: what its BMC tells.
        wishes: what its model asks for.
        unchecked: values may be sent that no registry was read for.
    """
    if not wishes or all(_state(state, wish) == "as wanted" for wish in wishes):
        return
    if state.cannot:
        by_hand = "set them in its BIOS menu: appliance hardware bios show names each"
        yield Refusal(node, "bios", state.cannot, "settings that can be changed", by_hand)
        return
    if state.rules is None and not unchecked:
        yield Refusal(
            node,
            "bios",
            f"no attribute registry ({state.no_rules})",
            "one that says which values are allowed",
            "compare the values with the BIOS menu, then add: --without-registry",
        )
    for wish in wishes:
        yield from _of_wish(node, state, wish)
    yield from _of_others(node, state, wishes)


def _of_wish(node: str, state: BiosState, wish: Wish) -> Iterator[Refusal]:
    check, rule = f"bios:{wish.name}", state.rule(wish.name)
    correct = "correct wanted.bios in the model's file; see what there is: "
    correct += f"appliance hardware bios show {node} --all"
    unknown = state.rules is not None and wish.name not in state.rules
    if wish.name not in state.attributes or unknown:
        yield Refusal(node, check, "no such attribute", word(wish.value), correct)
    elif _state(state, wish) == "as wanted":
        return
    elif rule.is_secret:
        yield Refusal(node, check, "a password", "a setting that may be in a file", correct)
    elif rule.read_only:
        found = f"{state.shown(wish.name)}, which is read-only"
        by_hand = "see in its BIOS menu which other setting it depends on"
        yield Refusal(node, check, found, word(wish.value), by_hand)
    elif not _fits(state, rule, wish):
        allowed = rule.allowed() if rule.kind else "a value of its type"
        yield Refusal(node, check, f"the wish {word(wish.value)}", allowed, correct)


def _fits(state: BiosState, rule: AttributeRule, wish: Wish) -> bool:
    if rule.kind:
        return rule.accepts(wish.value)
    found = state.attributes[wish.name]
    return found is None or type(found) is type(wish.value)


def _of_others(node: str, state: BiosState, wishes: tuple[Wish, ...]) -> Iterator[Refusal]:
    """Settings that somebody else ordered: a restart would put them in force, unseen."""
    wanted = {wish.name: wish.value for wish in wishes}
    others = [
        f"{name} = {'(not shown)' if state.rule(name).is_secret else word(value)}"
        for name, value in state.pending.items()
        if name not in wanted or not same(value, wanted[name])
    ]
    if others:
        more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        yield Refusal(
            node,
            "bios:pending",
            f"settings of somebody else that wait for the next start: "
            f"{', '.join(others[:_NAMED])}{more}",
            "none",
            "ask who ordered them; then restart the node, or discard them on the BMC's web page",
        )
