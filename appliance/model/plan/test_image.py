"""Images for test pods, from the site's own registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from appliance.model.site.settings import Site
    from appliance.model.state.facts.facts import NodeFacts

BUSYBOX: Final = "busybox"
CUDA: Final = "cuda"


def pod_test_image(site: Site, services: NodeFacts, name: str) -> str | None:
    """Return ``NAME:PORT/IMAGE@sha256:…`` of an image in the registry; None when it is missing.

    Args:
        site: the site with the registry.
        services: the facts of the node that runs it.
        name: the image's, without its tag.
    """
    for image, digest in (services.at("registry.images") or {}).items():
        if image.startswith(f"{name}:"):
            return f"{site.image_prefix}/{name}@{digest}"
    return None
