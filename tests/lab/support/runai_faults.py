"""Faults for Run:ai's refusals. Each asserts that it is in force, and is undone at the end."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from appliance.adapters.local.content import STANDINS
from appliance.adapters.runai.certificate import new_key
from appliance.adapters.site.authorities import SiteAuthorities
from appliance.builder.sources.local import packed_chart
from tests.lab.support import faults
from tests.lab.support.cluster import KUBECTL
from tests.lab.support.runai_site import RunaiSite, own_authority, signed
from tests.vendor_bundles import tiny_bundle, with_member, without

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

ELSEWHERE = "203.0.113.9"
UNPACKED = "/var/lib/appliance/runai"


@contextmanager
def little_space(site: RunaiSite) -> Iterator[None]:
    """A file system of 19 GB for what is unpacked, and a site that leaves the threshold alone."""
    cp1 = site.lab.node("cp1")
    with faults.small_filesystem(cp1, UNPACKED, "19000000000"), site.asks(minimum_free_gb=None):
        free = int(faults.shell(cp1, f"df --output=avail -B1 {UNPACKED} | tail -n 1"))
        assert round(free / 1e9, 3) == 19.0
        yield


@contextmanager
def truncated_bundle(site: RunaiSite) -> Iterator[None]:
    """A copy that ended too early."""
    content = site.bundle.read_bytes()
    site.bundle.write_bytes(content[: len(content) // 2])
    with tarfile.open(site.bundle) as archive, pytest.raises(tarfile.ReadError):
        archive.getmembers()
    yield


@contextmanager
def later_bundle(site: RunaiSite) -> Iterator[None]:
    """A bundle of a version that this Kubernetes does not run."""
    path = tiny_bundle("2.17.3", site.folder)
    with tarfile.open(path) as archive:
        assert "deploy/control-plane-2.17.3.tgz" in archive.getnames()
    with site.asks(vendor_bundle=str(path)):
        yield


@contextmanager
def bundle_without_chart(site: RunaiSite) -> Iterator[None]:
    """A bundle that somebody took the cluster's chart out of."""
    path = without(site.bundle, "runai-cluster-2.7.1.tgz")
    with tarfile.open(path) as archive:
        assert not [name for name in archive.getnames() if "runai-cluster" in name]
    with site.asks(vendor_bundle=str(path)):
        yield


@contextmanager
def bundle_that_writes_elsewhere(site: RunaiSite) -> Iterator[None]:
    """A bundle with a member that leads out of the folder it is unpacked in."""
    path = with_member(site.bundle, tarfile.TarInfo("../../etc/cron.d/evil"))
    with tarfile.open(path) as archive:
        assert "../../etc/cron.d/evil" in archive.getnames()
    with site.asks(vendor_bundle=str(path)):
        yield


@contextmanager
def _certified(site: RunaiSite, chain: str, key: str) -> Iterator[Certificate]:
    """The site brings this certificate, and this key lies in its vault."""
    from cryptography import x509

    path = site.folder / "backend.pem"
    path.write_text(chain)
    site.keep(vault_runai_tls_key=key)
    with site.asks(certificate=str(path)):
        yield x509.load_pem_x509_certificate(path.read_bytes())


@contextmanager
def wrong_key(site: RunaiSite) -> Iterator[None]:
    """The vault holds the key of another certificate."""
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    chain, _ = signed(site.domain, own_authority(site))
    with _certified(site, chain, new_key()) as certificate:
        held = site.secrets()["vault_runai_tls_key"].encode()
        assert load_pem_private_key(held, None).public_key() != certificate.public_key()
        yield


@contextmanager
def unknown_authority(site: RunaiSite) -> Iterator[None]:
    """A certificate by a CA that is neither the site's nor the organisation's."""
    other = SiteAuthorities().make("another")
    assert other.certificate != own_authority(site).certificate
    with _certified(site, *signed(site.domain, other)) as certificate:
        assert certificate.issuer.rfc4514_string() == "CN=another site CA"
        yield


@contextmanager
def expires_tomorrow(site: RunaiSite) -> Iterator[None]:
    """A good certificate, whose time is nearly over."""
    ends = datetime.now(UTC) + timedelta(days=1)
    with _certified(site, *signed(site.domain, own_authority(site), ends=ends)) as certificate:
        left = certificate.not_valid_after_utc - datetime.now(UTC)
        assert timedelta(hours=23) < left < timedelta(hours=25)
        yield


@contextmanager
def name_points_elsewhere(site: RunaiSite) -> Iterator[None]:
    """Every node's resolver answers with an address that is nobody's here."""
    nodes = [site.lab.node(short) for short in ("cp1", "w1", "w2")]
    with ExitStack() as stack, site.asks(own_dns=False):
        for node in nodes:
            stack.enter_context(_host_entry(node, f"{ELSEWHERE} {site.domain}"))
            assert faults.shell(node, f"getent ahostsv4 {site.domain}").startswith(ELSEWHERE)
        yield


@contextmanager
def _host_entry(node: str, line: str) -> Iterator[None]:
    before = faults.shell(node, "cat /etc/hosts")
    faults.shell(node, f"echo '{line}' >>/etc/hosts")
    try:
        yield
    finally:
        faults.shell(node, "cat >/etc/hosts", stdin=before + "\n")


@contextmanager
def clocks_apart(site: RunaiSite) -> Iterator[None]:
    """Two clocks 90 s apart, each less than a minute away from the control host's, and running."""
    with _running_clock(site.lab.node("w1"), 45), _running_clock(site.lab.node("w2"), -45):
        yield


@contextmanager
def _running_clock(node: str, seconds: float) -> Iterator[None]:
    """The clock as the probe reads it goes on, so many seconds ahead of the real one."""
    path, unit = f"{faults.FACTS}/clock.json", "standin-clock"
    with faults.facts(node, "clock", epoch=0):
        said = json.loads(faults.shell(node, f"cat {path}"))
        loop = (
            f"import json, os, time\nwhile True:\n said = {said!r}\n"
            f" said['epoch'] = time.time() + {seconds}\n"
            f" open('{path}.new', 'w').write(json.dumps(said))\n"
            f" os.replace('{path}.new', '{path}')\n time.sleep(0.5)\n"
        )
        faults.shell(node, "cat >/run/standin-clock.py", stdin=loop)
        faults.shell(node, f"systemd-run --quiet --unit={unit} python3 /run/standin-clock.py")
        ahead = f"import json, time; a = json.load(open('{path}'))['epoch'] - time.time(); "
        try:
            check = f'python3 -c "{ahead} exit(abs(a - {seconds}) > 5)"'
            faults.wait("the clock to run", node, check)
            yield
        finally:
            faults.shell(node, f"systemctl stop {unit}; rm -f /run/standin-clock.py {path}.new")
    faults.wait("the clock to be the real one", node, f"! systemctl is-active {unit}")


@contextmanager
def ingress_class(site: RunaiSite) -> Iterator[None]:
    """Somebody's ingress controller has taken the name."""
    document = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IngressClass",
        "metadata": {"name": "nginx"},
        "spec": {"controller": "k8s.io/ingress-nginx"},
    }
    cp1 = site.lab.node("cp1")
    faults.shell(cp1, f"{KUBECTL} create -f -", stdin=json.dumps(document))
    try:
        listed = faults.shell(cp1, f"{KUBECTL} get ingressclass -o name")
        assert listed == "ingressclass.networking.k8s.io/nginx"
        yield
    finally:
        faults.shell(cp1, f"{KUBECTL} delete ingressclass nginx")


@contextmanager
def old_gpu_operator(site: RunaiSite) -> Iterator[None]:
    """A helm release of GPU Operator 1.11.1, by the stand-in's chart; its images are nowhere."""
    cp1, version, there = site.lab.node("cp1"), "1.11.1", "--namespace gpu-operator"
    chart = site.folder / "gpu-operator"
    shutil.copytree(STANDINS / "gpu_operator_standin" / "chart", chart)
    said = yaml.safe_load((chart / "Chart.yaml").read_text())
    said |= {"version": version, "appVersion": f"v{version}"}
    (chart / "Chart.yaml").write_text(yaml.safe_dump(said))
    packed = site.folder / "operator.tgz"
    packed.write_bytes(packed_chart(chart, "gpu-operator"))
    helm = "KUBECONFIG=/etc/kubernetes/admin.conf /root/helm"
    for source, target in ((site.lab.bundle / "bin/helm", "helm"), (packed, "operator.tgz")):
        _copy(source, f"{cp1}:/root/{target}")
    faults.shell(cp1, f"chmod 755 /root/helm && {helm} install gpu-operator /root/operator.tgz "
                 f"--create-namespace {there}")  # fmt: skip
    try:
        (release,) = json.loads(faults.shell(cp1, f"{helm} list {there} --output json"))
        assert (release["chart"], release["status"]) == (f"gpu-operator-{version}", "deployed")
        # Until then the nodes still change: sandboxes are made, and images asked for in vain.
        why = "-o jsonpath='{.items[*].status.containerStatuses[*].state.waiting.reason}'"
        pods = f"{KUBECTL} get pods {there} {why}"
        settled = f"! {pods} | grep -q ContainerCreating && {pods} | grep -q Image"
        faults.wait("its pods to miss their images", cp1, settled, 90)
        yield
    finally:
        faults.shell(cp1, f"{helm} uninstall gpu-operator {there}")
        faults.shell(cp1, f"{KUBECTL} delete namespace gpu-operator --timeout=90s")
        faults.shell(cp1, f"{KUBECTL} delete crd clusterpolicies.nvidia.com")
        faults.shell(cp1, "rm -rf /root/helm /root/operator.tgz /root/.cache/helm")


def _copy(source: Path, target: str) -> None:
    subprocess.run(
        ["podman", "cp", str(source.resolve()), target],
        check=True,
        capture_output=True,
        timeout=300,
    )


@contextmanager
def registry_with_login(site: RunaiSite) -> Iterator[None]:
    """The registry asks for a login to read, and knows nobody."""
    cp1, unit = site.lab.node("cp1"), "docker-registry"
    folder, known = f"/etc/systemd/system/{unit}.service.d", "/etc/docker/registry/htpasswd"
    text = "[Service]\nEnvironment=REGISTRY_AUTH=htpasswd REGISTRY_AUTH_HTPASSWD_REALM=site "
    text += f"REGISTRY_AUTH_HTPASSWD_PATH={known}\n"
    url = f"https://{site.settings()['registry']}/v2/"
    ask = f"curl -s -o /dev/null -w '%{{http_code}}' --cacert /etc/appliance/ca.crt {url} "
    ask += "-H 'Authorization: Bearer anonymous'"
    restart = f"systemctl daemon-reload && systemctl restart {unit}"
    with (
        faults.file_says(cp1, known, "nobody:unknown\n"),
        faults.file_says(cp1, f"{folder}/login.conf", text),
    ):
        faults.shell(cp1, restart)
        faults.wait("the registry to ask", cp1, f'[ "$({ask})" = 401 ]')
        yield
    faults.shell(cp1, restart)
    faults.wait("the registry to answer everybody", cp1, f'[ "$({ask})" = 200 ]')
