"""What Run:ai cannot be installed with is refused before any change, in one sentence each.

Each case puts one fault in force on a Ready cluster whose site asks for Run:ai, runs the real
install, and proves by facts and journal that nothing was changed by it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.lab.conftest import LabSite
from tests.lab.support import faults, runai_faults
from tests.lab.support.runai_site import RunaiSite, runai_site
from tests.lab.support.stillness import assert_still, scene

pytestmark = [pytest.mark.lab, pytest.mark.slow]

REFUSED = 3
Fault = Callable[[RunaiSite], AbstractContextManager[None]]


@dataclass(frozen=True)
class Case:
    """A fault, and what the one sentence and its hint have to say.

    Attributes:
        fault: puts it in force, in the site's files or on nodes.
        says: words of the sentence; ``{w1}`` is that node's name, ``{name}`` the backend's.
        hint: words of the next command.
    """

    fault: Fault
    says: tuple[str, ...]
    hint: str


CASES: dict[str, Case] = {
    "19 GB free": Case(
        runai_faults.little_space,
        ("{cp1}: vendor_bundle_space: found 19.0 GB free on", "expected 20.0 GB for runai-2.7.1"),
        "du -xh",
    ),
    "less free than the site asks for": Case(
        lambda site: site.asks(minimum_free_gb=90_000),
        ("{cp1}: vendor_bundle_space", "expected 90000.0 GB for runai-2.7.1.tar"),
        "runai.minimum_free_gb",
    ),
    "a truncated bundle": Case(
        runai_faults.truncated_bundle,
        ("{cp1}: vendor_bundle: found runai-2.7.1.tar: the archive is truncated",),
        "appliance runai inspect",
    ),
    "a bundle for a later Kubernetes": Case(
        runai_faults.later_bundle,
        ("vendor_bundle: found", "Kubernetes 1.23.5 runs Run:ai 2.4 to 2.8, not 2.17.3"),
        "appliance runai inspect",
    ),
    "a bundle without a chart": Case(
        runai_faults.bundle_without_chart,
        ("it lacks the cluster's chart (runai-cluster-<version>.tgz)",),
        "appliance runai inspect",
    ),
    "a bundle that writes elsewhere": Case(
        runai_faults.bundle_that_writes_elsewhere,
        ("would be written outside the folder",),
        "appliance runai inspect",
    ),
    "a bundle that is not there": Case(
        lambda site: site.asks(vendor_bundle=str(site.folder / "nowhere.tar")),
        ("no vendor bundle", "nowhere.tar on the control host, and none is unpacked"),
        "correct runai.vendor_bundle",
    ),
    "a key of another certificate": Case(
        runai_faults.wrong_key,
        ("certificate: found a key in the vault (vault_runai_tls_key) that belongs to another",),
        "ansible-vault edit",
    ),
    "a certificate by a CA that nobody knows": Case(
        runai_faults.unknown_authority,
        ("certificate: found a chain that ends at CN=another site CA, which the nodes do not",),
        "certificates.organisation_ca",
    ),
    "a certificate that expires tomorrow": Case(
        runai_faults.expires_tomorrow,
        ("certificate: found CN={name}: expires on", "in 24 hours, expected at least 30 days"),
        "ask for a new certificate",
    ),
    "DNS that points elsewhere": Case(
        runai_faults.name_points_elsewhere,
        ("every node: dns_nodes: found {name} resolving to 203.0.113.9", "expected", "{w1_ip}"),
        "correct the DNS record of {name}",
    ),
    "an IngressClass nginx": Case(
        runai_faults.ingress_class,
        ("ingress_class: found an IngressClass nginx that is not Run:ai's",),
        "ingress-nginx: {{enabled: false}}",
    ),
    "GPU Operator 1.11": Case(
        runai_faults.old_gpu_operator,
        ("gpu_operator: found GPU Operator 1.11.1 in namespace gpu-operator", "22.9 and later"),
        "helm uninstall gpu-operator --namespace gpu-operator",
    ),
    "a registry that wants a login": Case(
        runai_faults.registry_with_login,
        ("{cp1}: registry_login: found https://registry.", "/v2/ answering 401", "a login"),
        "curl -ik -H 'Authorization: Bearer anonymous' https://registry.",
    ),
    "no system node": Case(
        lambda site: site.groups(system_nodes=()),
        ("site: system_nodes: found no system node, expected at least one worker",),
        "add workers to the group system_nodes of hosts.yml",
    ),
    "clocks 90 s apart": Case(
        runai_faults.clocks_apart,
        ("{w1}: clock_spread: found a clock", " s away from that of {w2}", "less than 60 s"),
        "chronyc tracking",
    ),
    "one clock 90 s ahead of all others": Case(
        lambda site: faults.clock_off(site.lab.node("w1"), 90),
        ("{w1}: clock: found a clock", "s ahead of the control host's"),
        "date --utc",
    ),
}


@pytest.fixture(scope="module")
def good(installed_lab: LabSite, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a site that asks for Run:ai lies, with nothing wrong: it would be installed."""
    folder = tmp_path_factory.mktemp("runai")
    site = runai_site(installed_lab, folder)
    _assert_it_would_be_installed(site)
    return folder


def _assert_it_would_be_installed(site: RunaiSite) -> None:
    """The step is planned, and nothing forbids it."""
    done = site.lab.install("--dry-run", "--output", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["plan"]
    assert "runai" in [step["name"] for step in found["steps"]], found
    assert found["refusals"] == []


# Its pods ask for images that are nowhere: Docker was seen to answer late meanwhile.
UNSTEADY = {"GPU Operator 1.11"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in UNSTEADY else ()) for name in CASES],
)
@pytest.mark.usefixtures("good")
def test_an_install_is_refused_before_any_change(
    installed_lab: LabSite, name: str, tmp_path: Path
) -> None:
    case, site = CASES[name], runai_site(installed_lab, tmp_path)
    with case.fault(site):
        before = scene(site.lab)
        began = time.monotonic()
        done = site.lab.install(timeout=180)
        took = time.monotonic() - began
        after = scene(site.lab)
    print(f"{name}: {took:.1f} s\n{done.stdout}{done.stderr}")  # noqa: T201 - for the log
    assert done.returncode == REFUSED, done.stdout + done.stderr
    names = {short: site.lab.node(short) for short in ("cp1", "w1", "w2")}
    names |= {f"{short}_ip": site.lab.address(short) for short in names} | {"name": site.domain}
    (error,) = (line for line in done.stderr.splitlines() if line.startswith("error: "))
    (hint,) = (line for line in done.stderr.splitlines() if line.startswith("hint: "))
    assert len(done.stderr.splitlines()) <= 4, "one fault, one sentence"
    assert "\n  - " not in done.stderr, "one fault, one sentence"
    for words in case.says:
        assert words.format(**names) in error, f"not said: {words}\n{error}"
    assert case.hint.format(**names) in hint
    assert_still(before, after)


def test_the_site_would_still_be_installed(installed_lab: LabSite, good: Path) -> None:
    _assert_it_would_be_installed(RunaiSite.at(installed_lab, good))
