"""Which bundles and images nothing needs: only what is surely ours, and surely needless, goes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from appliance.adapters.care.supply import images_of, supply_of
from appliance.model.upkeep.care.items import AREAS, Item, going
from appliance.model.upkeep.care.supply import (
    ORPHANS,
    READ_ONLY,
    Needs,
    NodeImage,
    Revision,
    StoredBundle,
    Supply,
    image_items,
    judge,
    supply_items,
)

PREFIX = "registry.rack.example:5000"


def digest(letter: str) -> str:
    return "sha256:" + letter * 64


def bundle(letter: str, release: str, images: dict[str, str], **changes: Any) -> StoredBundle:
    plain = StoredBundle(letter * 64, release, images, False, -1, 7_000_000)
    return replace(plain, **changes)


BUSYBOX = {"busybox:1": digest("0")}
OLDEST = bundle("1", "r1", {"pause:3.4": digest("a"), **BUSYBOX}, verified=0)
BEFORE = bundle("2", "r2", {"pause:3.5": digest("b"), **BUSYBOX}, verified=1)
NOW = bundle("3", "r3", {"pause:3.6": digest("c"), **BUSYBOX}, verified=2, served=True)
BLOBS = {digest(letter): 1000 for letter in "abc0def"}


def revision(name: str, letter: str, *blobs: str) -> Revision:
    repository, _, tag = name.partition(":")
    return Revision(repository, digest(letter), (tag,), 1000, tuple(map(digest, blobs)))


HELD = (
    revision("pause:3.4", "a", "d"),
    revision("pause:3.5", "b", "d"),
    revision("pause:3.6", "c"),
    revision("busybox:1", "0"),
    revision("runai/app:2", "e"),
)
SUPPLY = Supply((OLDEST, BEFORE, NOW), HELD, BLOBS)


NOTHING = Needs()


def fates(
    supply: Supply = SUPPLY, needs: Needs = NOTHING, areas: Any = AREAS, **nodes: Any
) -> dict[str, bool]:
    verdict = judge(supply, needs, PREFIX, nodes)
    return {i.what: i.goes for i in supply_items("cp1", supply, needs, verdict, areas)}


def gone(*args: Any, **named: Any) -> set[str]:
    return {what for what, goes in fates(*args, **named).items() if goes}


R1 = "bundle r1 (111111111111)"
OLD = {"pause:3.4", R1}


def test_the_release_and_the_one_before_stay() -> None:
    assert gone() == OLD | {ORPHANS}
    found = fates()
    assert found["bundle r2 (222222222222)"] is False
    assert found["other images"] is False


def on_a_node(name: str, letter: str, *, used: bool = True) -> tuple[NodeImage, ...]:
    return (NodeImage(f"{PREFIX}/{name}", digest(letter), 5000, used),)


NEEDED: dict[str, tuple[Supply, Needs, dict[str, Any], set[str]]] = {
    "a pod names it": (SUPPLY, Needs(frozenset({f"{PREFIX}/pause:3.4"})), {}, {R1}),
    "a pod names its digest": (
        SUPPLY, Needs(frozenset({f"{PREFIX}/pause@{digest('a')}"})), {}, {R1},
    ),
    "a node runs it": (SUPPLY, Needs(), {"w1": on_a_node("pause:3.4", "a")}, {R1}),
    "a node runs it by another name": (
        SUPPLY, Needs(), {"w1": on_a_node("mine:1", "a")}, {R1},
    ),
    "a node has it, and does not run it": (
        SUPPLY, Needs(), {"w1": on_a_node("pause:3.4", "a", used=False)}, OLD,
    ),
    "a backup names its release": (SUPPLY, Needs(releases=frozenset({"r1"})), {}, set()),
    "what needs it is unknown": (SUPPLY, Needs(unknown="w2 does not answer"), {}, set()),
    "nothing is served": (
        replace(SUPPLY, bundles=(OLDEST, BEFORE, replace(NOW, served=False))), Needs(), {}, set(),
    ),
    "its bundle is not whole": (
        replace(SUPPLY, bundles=(replace(OLDEST, verified=-1), BEFORE, NOW)), Needs(), {}, set(),
    ),
    "its bundle's manifest is not its own": (
        replace(SUPPLY, bundles=(replace(OLDEST, images=None, release=""), BEFORE, NOW)),
        Needs(), {}, set(),
    ),
    "its name has another digest in the registry": (
        replace(SUPPLY, revisions=(revision("pause:3.4", "f"), *HELD[1:])), Needs(), {},
        {R1},
    ),
    "a second name is somebody else's": (
        replace(SUPPLY, revisions=(replace(HELD[0], tags=("3.4", "mine")), *HELD[1:])), Needs(), {},
        {R1},
    ),
    "an index of the release names it": (
        replace(
            SUPPLY,
            revisions=(*HELD[:2], replace(HELD[2], children=(digest("a"),)), *HELD[3:]),
        ),
        Needs(), {}, {R1},
    ),
    "somebody's index names it": (
        replace(
            SUPPLY,
            revisions=(*HELD, replace(revision("pause:all", "9"), children=(digest("a"),))),
        ),
        Needs(), {}, {R1},
    ),
    "the next one is here already": (
        replace(
            SUPPLY,
            bundles=(OLDEST, replace(NOW, verified=1), replace(BEFORE, verified=2)),
        ),
        Needs(), {}, set(),
    ),
    "the newest one before is not whole any more": (
        replace(
            SUPPLY,
            bundles=(
                OLDEST, BEFORE, replace(OLDEST, digest="4" * 64, images=None, verified=3), NOW,
            ),
        ),
        Needs(), {}, OLD,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("supply", "needs", "nodes", "goes"), NEEDED.values(), ids=NEEDED)
def test_what_something_needs_stays(
    supply: Supply, needs: Needs, nodes: dict[str, Any], goes: set[str]
) -> None:
    assert gone(supply, needs, **nodes) - {ORPHANS} == goes


def test_the_bundle_stays_while_its_list_shows_what_is_ours() -> None:
    assert gone(areas=("mirror",)) == set()
    assert gone(replace(SUPPLY, revisions=HELD[1:]), areas=("mirror",)) == {
        "bundle r1 (111111111111)"
    }
    assert gone(areas=("registry", "mirror")) >= OLD


def test_sizes_are_of_what_nothing_else_has() -> None:
    verdict = judge(SUPPLY, Needs(), PREFIX, {})
    items = {i.what: i for i in supply_items("cp1", SUPPLY, Needs(), verdict, AREAS)}
    assert items["pause:3.4"].size_bytes == 1000, "its layer is shared with pause:3.5"
    assert items[ORPHANS].size_bytes == 1000


def test_a_registry_left_read_only_is_told_and_ended() -> None:
    assert READ_ONLY in gone(replace(SUPPLY, read_only=True))
    assert READ_ONLY not in gone()


def test_the_organisations_registry_is_not_touched() -> None:
    theirs = Supply(SUPPLY.bundles)
    assert gone(theirs) == {R1}


def test_nodes_lose_what_no_container_uses() -> None:
    nodes = {
        "w1": (
            *on_a_node("pause:3.4", "a", used=False),
            *on_a_node("pause:3.5", "b", used=False),
            NodeImage("docker.io/pause:3.4", digest("a"), 9, used=False),
            NodeImage(f"{PREFIX}/pause:3.4", digest("f"), 9, used=False),
        ),
        "w2": on_a_node("pause:3.5", "b", used=False),
    }
    verdict = judge(SUPPLY, Needs(), PREFIX, nodes)
    found: tuple[Item, ...] = going(image_items(nodes, verdict, PREFIX))
    assert [(one.node, one.what, one.size_bytes) for one in found] == [("w1", "pause:3.4", 5000)]


ANSWER: dict[str, Any] = {
    "bundles": [
        {"digest": "1" * 64, "release": "r1", "images": {"pause:3.4": digest("a")}, "served": True,
         "verified": 0, "own_bytes": 12}
    ],
    "registry": {
        "revisions": [
            {"repository": "pause", "digest": digest("a"), "tags": ["3.4"], "bytes": 3, "blobs": [],
             "children": []}
        ],
        "blobs": {digest("a"): 3}, "read_only": False,
    },
}  # fmt: skip


def test_an_answer_is_read() -> None:
    found = supply_of(ANSWER)
    assert found.bundles[0].served
    assert found.revisions == (Revision("pause", digest("a"), ("3.4",), 3),)
    assert supply_of({**ANSWER, "registry": None}).revisions is None


STRANGE = {
    "a path for a digest": ('"' + "1" * 64 + '"', '"../../etc"'),
    "a template for a name": ("pause:3.4", "{{ x }}"),
    "a negative size": ('"own_bytes": 12', '"own_bytes": -1'),
    "terminal control": ('"3.4"]', '"\\u001b[2J"]'),
    "no list": ('"children": []', '"children": 1'),
}


@pytest.mark.parametrize(("text", "other"), STRANGE.values(), ids=STRANGE)
def test_a_strange_answer_is_an_error(text: str, other: str) -> None:
    said = json.dumps(ANSWER)
    assert text in said
    with pytest.raises((ValueError, TypeError, LookupError)):
        supply_of(json.loads(said.replace(text, other)))


def test_a_nodes_images_are_read() -> None:
    row = {"name": f"{PREFIX}/pause:3.4", "digest": digest("a"), "id": "sha256:1", "bytes": 4}
    assert images_of({"images": [row], "used": ["sha256:1"]})[0].used
    assert not images_of({"images": [row], "used": []})[0].used
    assert images_of({"images": [{**row, "digest": "<none>"}], "used": []})[0].digest == ""
    with pytest.raises(ValueError, match="another form"):
        images_of({"images": [{**row, "name": "a b"}], "used": []})
