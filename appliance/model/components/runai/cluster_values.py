"""Values of Run:ai's cluster part that follow from the rest of the site.

The keys are those of the vendor's page on customising the cluster install. What must not be here:
values that the backend gives, and secret ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from appliance.model.site.settings import SiteSettings

# The GPU Operator brings both: two of them write the same labels in turn.
WITHOUT_DISCOVERY: Final = {"gpu-feature-discovery": {"enabled": False, "nfd": {"deploy": False}}}


def cluster_values(settings: SiteSettings) -> dict[str, Any]:
    """The values that a site's files give; what the site says itself comes last."""
    own: Mapping[str, Any] = WITHOUT_DISCOVERY if settings.gpu is not None else {}
    given = settings.runai.cluster_values if settings.runai else {}
    return laid_over(own, given)


def laid_over(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return values merged deeply; ``more`` wins."""
    found = dict(base)
    for key, value in more.items():
        below = found.get(key)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        found[key] = laid_over(below, value) if both else value  # type: ignore[arg-type]
    return found
