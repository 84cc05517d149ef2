"""The arguments of ``runai-adm generate-values`` for each Run:ai version.

Source: Run:ai's installation pages of 2.4 to 2.11 (k8s/backend.md). The guide's listing does not
run as printed: it has comments after its backslashes.
"""

from __future__ import annotations

from collections.abc import Sequence

from appliance.model.bundle.release.runai_versions import brings_its_own, minor_of

OUTPUT = "runai-backend-values.yaml"
# From here on --registry took the place of --airgapped.
WITH_REGISTRY = (2, 8)


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
    """Return the arguments of ``runai-adm``; certificate and key are paths on the node.

    Args:
        version: the vendor's, such as ``2.7.14``.
        domain: the backend's name.
        addresses: where the backend answers.
        certificate: path of its certificate chain.
        key: path of the certificate's key.
        nfs: server and path of the volumes; None leaves them to the default StorageClass (2.9 on).
        registry: NAME:PORT.

    Raises:
        ValueError: ``version`` is no version.
    """
    line = minor_of(version)
    if line is None:
        raise ValueError(f"{version!r} is not a version of Run:ai")
    found = ["generate-values", "--domain", domain, "--tls-cert", certificate, "--tls-key", key]
    if brings_its_own(line):
        found += ["--external-ips", ",".join(addresses)]
    if nfs is not None:
        found += ["--nfs-server", nfs[0], "--nfs-path", nfs[1]]
    if line >= WITH_REGISTRY:
        return [*found, "--registry", registry]
    return [*found, "--airgapped"]
