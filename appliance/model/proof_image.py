"""Images with which pods prove something, as the site's own registry holds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from appliance.model.photograph import Photograph
    from appliance.model.site import Site

BUSYBOX: Final = "busybox"
CUDA: Final = "cuda"


def proof_image(site: Site, services: Photograph, name: str) -> str | None:
    """``NAME:PORT/IMAGE@sha256:…`` of an image in custody; None when it is not there.

    Args:
        site: whose registry is meant.
        services: the photograph of the node that runs it.
        name: the image's, without its tag.
    """
    for image, digest in (services.at("registry.images") or {}).items():
        if image.startswith(f"{name}:"):
            return f"{site.settings.registry}/{name}@{digest}"
    return None
