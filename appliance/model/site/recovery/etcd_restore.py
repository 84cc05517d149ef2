"""What a site says of the restore of etcd's snapshots: an optional section of ``site.yml``."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StrictInt

from appliance.model.site.fields import Settings


class EtcdRestore(Settings):
    """Limits of the restore that shows that a snapshot of etcd is good."""

    seconds: Annotated[StrictInt, Field(ge=30, le=7200)] = 180
    """Seconds that the restore may take."""
    memory_mb: Annotated[StrictInt, Field(ge=256, le=65536)] = 1024
    """MiB of memory of the node that the scratch etcd may take; about 300 for a million keys."""
