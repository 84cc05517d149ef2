"""Can this version of the tool set up the runtime of the release?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from appliance.model.state.desired import Desired
from appliance.model.state.findings import Finding

# The runtimes that a role sets up.
SET_UP: Final = frozenset({"docker", "containerd"})


def release_runtime(desired: Desired) -> Iterator[Finding]:
    """The install has a role for the runtime of the release."""
    release = desired.release
    if release.runtime.name in SET_UP:
        return
    yield Finding(
        desired.site.control_plane[0].name,
        "release_runtime",
        "error",
        f"release {release.name}, whose nodes run {release.runtime.title}",
        "a release on Docker: this version of the tool sets up no other runtime",
        "set appliance_release in site.yml to "
        + (" or ".join(release.reached_from) or "another release"),
        of_site=True,
    )


SITE_CHECKS: Final = (release_runtime,)
