"""Checks of a site's researcher access: only flags that the role manages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from appliance.model.site.files.diagnostics import SiteFault
from appliance.model.site.files.draft import Draft, KnownContent
from appliance.model.site.role_overrides import FLAG_FAMILY


def more_flags_are_of_oidc(draft: Draft, _known: KnownContent) -> Iterator[SiteFault]:
    """A flag of another family would be written again and again, and never taken away."""
    if draft.value is None:
        return
    given = draft.value.role_overrides.get("api_oidc", {}).get("api_oidc_more_flags")
    if not isinstance(given, Mapping):
        return
    for name in given:
        if not str(name).startswith(FLAG_FAMILY):
            yield draft.fault(
                ("role_overrides", "api_oidc", "api_oidc_more_flags", name),
                f"{name!r} is not a login flag of the API server",
                f"write a flag that begins with {FLAG_FAMILY}",
            )


ACCESS_CHECKS: Final[tuple[Callable[[Draft, KnownContent], Iterator[SiteFault]], ...]] = (
    more_flags_are_of_oidc,
)
