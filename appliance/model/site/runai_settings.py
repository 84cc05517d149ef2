"""What a site says of its GPUs and of Run:ai: optional sections of ``site.yml``.

A site without a section gets none of its steps. Secrets are not here: the administrator's password
and the key of the certificate are ``vault_runai_admin_password`` and ``vault_runai_tls_key``;
secret values of the charts are ``vault_runai_values`` and ``vault_runai_cluster_values``.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StrictInt

from appliance.model.site.fields import Address, DnsName, Flag, Kernel, Settings, Text

Gigabytes = Annotated[StrictInt, Field(ge=1, le=100_000)]
RouterId = Annotated[StrictInt, Field(ge=1, le=255)]
Days = Annotated[StrictInt, Field(ge=0, le=3650)]


class TimeSlicing(Settings):
    """Each GPU offered several times; nothing keeps those who share it apart.

    The keys are those of NVIDIA's device plugin, ``sharing.timeSlicing``.
    """

    replicas: Annotated[StrictInt, Field(ge=2, le=64)]
    """How many pods may share one GPU."""
    rename_by_default: Flag = False
    """true: slices are requested as nvidia.com/gpu.shared; false: as nvidia.com/gpu."""
    fail_requests_greater_than_one: Flag = False
    """true: a container that requests more than one slice is refused."""
    workers: tuple[Text, ...] = ()
    """Workers whose GPUs are shared; none named: all of them."""


class Gpu(Settings):
    """NVIDIA's GPU Operator on the workers with GPUs."""

    operator: Text | None = None
    """Version of the GPU Operator; null: the release's."""
    driver: Literal["host", "container", "preinstalled"] = "host"
    """host: the bundle's, on the nodes; container: the operator's; preinstalled: the site's own."""
    kernels: tuple[Kernel, ...] = ()
    """Kernels of the workers with GPUs (uname -r), for `appliance bundle build --site`."""
    mig_strategy: Literal["none", "single", "mixed"] | None = None
    """How MIG devices are offered; null: as the operator's chart has it, single."""
    time_slicing: TimeSlicing | None = None
    """Several pods on one GPU; null: each GPU has one."""
    opted_out: tuple[Text, ...] = ()
    """Workers with GPUs that the operator does not manage."""
    values: dict[str, Any] = Field(default_factory=dict)
    """Merged into the values of the GPU Operator's chart."""


class Access(Settings):
    """How researchers log in to the cluster."""

    enabled: Flag = False
    """true: the API server accepts logins of the backend."""
    mode: Literal["local", "sso"] = "local"
    """local: users of the backend itself; sso: users of the organisation's identity provider."""
    switched_on: Flag = False
    """true: a person switched on Researcher Authentication in the backend's General settings."""


class Runai(Settings):
    """The vendor's software."""

    vendor_bundle: Text | None = None
    """Path of runai-<version>.tar[.gz] on the control host; null: nothing is installed yet."""
    domain: DnsName | None = None
    """The backend's name; null: runai.<domain>."""
    address: Address | None = None
    """The backend's address; null: the system nodes' own addresses."""
    address_on: Literal["node", "keepalived", "elsewhere"] = "node"
    """Who has address. node: a node has it; keepalived: a system node, moved on failure."""
    router_id: RouterId | None = None
    """VRRP number of address, 1 to 255, on its LAN; null: from the address."""
    certificate: Text | None = None
    """Path of its certificate chain (PEM), its key in the vault; null: the site's CA signs one."""
    certificate_minimum_days: Days = 30
    """Days for which the backend's certificate must still be valid at an install."""
    own_dns: Flag = False
    """true: the services host resolves the backend's name, for a site without DNS."""
    admin_user: Text = "test@run.ai"
    """The vendor's first user in the backend. The password is in the vault."""
    cluster_values_file: Text | None = None
    """Path in the site of a downloaded runai-<cluster>.yaml; null: query the backend."""
    cluster_name: Text = "appliance"
    """Name of this cluster in the backend."""
    minimum_free_gb: Gigabytes = 20
    """Free space needed to unpack the vendor bundle, in GB."""
    system_on_control_plane: Flag = False
    """true: control-plane nodes may run Run:ai's own software, which uses port 443 there."""
    values: dict[str, Any] = Field(default_factory=dict)
    """Merged into the backend's values."""
    cluster_values: dict[str, Any] = Field(default_factory=dict)
    """Merged into the cluster part's values."""
    access: Access = Access()
