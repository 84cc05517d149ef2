"""What is known to be fatal before a build begins."""

from __future__ import annotations

from appliance.model.bundle.builds.builders import impossible
from appliance.model.bundle.release.sources import Source
from tests.unit.bundle.samples import URL, artifact, image_of, release


def unreachable(source: Source) -> str | None:
    return f"{source.ref}: no answer" if source.kind == "url" else None


def test_what_no_source_can_deliver_is_named_with_the_reason_of_each() -> None:
    other = {**URL, "url": "https://maker.test/other"}
    found = release(artifact("tool"), artifact("lost", sources=[URL, other]))
    assert impossible(found.artifacts, unreachable) == {
        "binary lost": (
            "https://maker.test/tool: no answer",
            "https://maker.test/other: no answer",
        )
    }


def test_an_image_is_lost_with_a_part_and_a_part_that_nothing_needs_is_not_named() -> None:
    lost = artifact("core", "part", sources=[URL])
    found = release(lost, artifact("bare", "part", sources=[URL]), image_of("web", "core"))
    assert impossible(found.artifacts, unreachable) == {
        "image web": ("core from https://maker.test/tool: no answer",)
    }
