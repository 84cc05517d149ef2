"""``runai-adm generate-values`` as one clean command, with the flags of each generation.

Source: Run:ai's installation pages of 2.4 to 2.11 (k8s/backend.md). The guide's listing has
comments after its backslashes and does not run as it is printed.
"""

from __future__ import annotations

from collections.abc import Sequence

OUTPUT = "runai-backend-values.yaml"
# From here on: nginx is no longer bundled; --registry took the place of --airgapped.
WITHOUT_NGINX = (2, 9)
WITH_REGISTRY = (2, 8)


def minor(version: str) -> tuple[int, int]:
    """``2.7.14`` -> ``(2, 7)``.

    Raises:
        ValueError: not a version.
    """
    first, second, *_ = version.split(".")
    return int(first), int(second)


def generate_values(  # noqa: PLR0913 - what the vendor's command takes
    version: str,
    *,
    domain: str,
    addresses: Sequence[str],
    certificate: str,
    key: str,
    nfs: tuple[str, str] | None,
    registry: str,
) -> list[str]:
    """Arguments of ``runai-adm``, without a secret: certificate and key are paths on the node.

    Args:
        version: the vendor's, such as ``2.7.14``.
        domain: the backend's name.
        addresses: where the backend answers.
        certificate: path of its certificate chain.
        key: path of the certificate's key.
        nfs: server and path of the volumes; None leaves them to the default StorageClass (2.9 on).
        registry: NAME:PORT.
    """
    found = ["generate-values", "--domain", domain, "--tls-cert", certificate, "--tls-key", key]
    if minor(version) < WITHOUT_NGINX:
        found += ["--external-ips", ",".join(addresses)]
    if nfs is not None:
        found += ["--nfs-server", nfs[0], "--nfs-path", nfs[1]]
    if minor(version) >= WITH_REGISTRY:
        return [*found, "--registry", registry]
    return [*found, "--airgapped"]
