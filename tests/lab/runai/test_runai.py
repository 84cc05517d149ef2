"""Run:ai end to end, on stand-ins: a connected cluster that answers, and runs jobs."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from appliance.adapters.site.vault import KEPT, AnsibleVault
from tests.lab.conftest import LabSite, wait_for
from tests.lab.runai.backend import REALM, domain, from_host
from tests.lab.runai.commands import Commands
from tests.lab.runai.hiding_places import CANARIES, PLACES, World, found_in
from tests.lab.runai.known_secrets import secrets_of
from tests.lab.runai.researchers import LOGIN
from tests.lab.runai.watch import ProcessWatch
from tests.lab.support.cluster import KUBECTL, busybox, kubectl

pytestmark = pytest.mark.lab

GANG = "pod-group.scheduling.sigs.k8s.io"


def job(
    name: str,
    image: str,
    *,
    gpus: int = 0,
    fraction: str = "",
    pods: int = 1,
    apart: bool = False,
) -> str:
    """A Job of so many pods that start together; ``apart`` puts each on a node of its own."""
    labels = {"job": name} | ({f"{GANG}": name} if pods > 1 else {})
    container = {
        "name": "main",
        "image": image,
        "command": ["sh", "-c", "nvidia-smi -L"],
        "resources": {"limits": {"nvidia.com/gpu": gpus}} if gpus else {},
    }
    metadata = {"labels": labels, "annotations": {"gpu-fraction": fraction} if fraction else {}}
    spec: dict[str, Any] = {
        "schedulerName": "runai-scheduler",
        "restartPolicy": "Never",
        "containers": [container],
    }
    if apart:
        term = {"labelSelector": {"matchLabels": {"job": name}}}
        term["topologyKey"] = "kubernetes.io/hostname"  # type: ignore[assignment]
        spec["affinity"] = {
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        }
    documents: list[dict[str, Any]] = [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {
                "parallelism": pods,
                "completions": pods,
                "template": {"metadata": metadata, "spec": spec},
            },
        }
    ]
    if pods > 1:
        group = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup"}
        documents.insert(0, group | {"metadata": {"name": name}, "spec": {"minMember": pods}})
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})


def run_job(
    lab: LabSite, name: str, document: str, space: str = "default"
) -> list[tuple[str, str]]:
    """Run it to completion in a namespace; (node, what it printed) of each pod."""
    kubectl(lab, f"-n {space} delete job {name} --ignore-not-found")
    lab.shell("cp1", f"echo '{document}' | {KUBECTL} -n {space} apply -f -")

    def completed() -> bool:
        status = json.loads(kubectl(lab, f"-n {space} get job {name} -o json"))["status"]
        conditions = {c["type"]: c["status"] for c in status.get("conditions", [])}
        return conditions.get("Complete") == "True"

    wait_for(f"job {name}", completed, 120)
    pods = json.loads(kubectl(lab, f"-n {space} get pods -l job={name} -o json"))["items"]
    return [
        (
            pod["spec"]["nodeName"],
            kubectl(lab, f"-n {space} logs {pod['metadata']['name']}").strip(),
        )
        for pod in pods
    ]


def test_a_second_run_has_nothing_to_do(runai_lab: LabSite) -> None:
    # On a busy machine a probe of the agent can be late once; that is no second run's business.
    runai_lab.settled()
    records = len(runai_lab.records())
    began = time.monotonic()
    done = runai_lab.install()
    print(f"second run: {time.monotonic() - began:.1f} s")  # noqa: T201 - a figure for the log
    assert done.returncode == 0, done.stderr
    assert "nothing to do" in done.stdout
    assert len(runai_lab.records()) == records


def test_the_login_page_answers_over_tls_by_its_name_from_the_host(runai_lab: LabSite) -> None:
    assert b"STANDIN" in from_host(runai_lab, "/")
    said = json.loads(from_host(runai_lab, f"{REALM}/.well-known/openid-configuration"))
    assert said["issuer"] == f"https://{domain(runai_lab)}{REALM}"


def test_the_login_page_answers_over_tls_by_its_name_from_a_pod(runai_lab: LabSite) -> None:
    program = (
        "import glob, ssl, urllib.request as u; c = ssl.create_default_context(); "
        "[c.load_verify_locations(file) for file in glob.glob('/etc/ssl/certs/*.pem')]; "
        f"print(u.urlopen('https://{domain(runai_lab)}/', context=c, timeout=20).status)"
    )
    agent = f"{KUBECTL} -n runai exec deployment/runai-agent -- python3 -c"

    def answered() -> bool:
        # A pod's question for a name can be lost once, and is asked again, as its agent does.
        said = runai_lab.shell("cp1", f'{agent} "{program}" 2>&1', check=False).split("\n")
        print(*said[-3:], sep="\n")  # noqa: T201 - what it met, for the log
        return said[0].strip() == "200"

    wait_for("the login page, by its name, from a pod", answered, 60)


def test_the_backend_itself_says_that_the_cluster_is_connected(runai_lab: LabSite) -> None:
    vault = AnsibleVault(runai_lab.directory / KEPT)
    known = vault.read(runai_lab.directory / "group_vars/all/vault.yml")
    form = {"grant_type": "password", "client_id": "runai", "username": LOGIN}
    form["password"] = known["vault_runai_admin_password"].strip()
    said = json.loads(from_host(runai_lab, f"{REALM}/protocol/openid-connect/token", form))
    clusters = json.loads(from_host(runai_lab, "/v1/k8s/clusters", token=said["access_token"]))
    assert [(one["name"], one["status"]) for one in clusters] == [(runai_lab.name, "connected")]


def test_what_carries_the_backend_was_labelled_before(runai_lab: LabSite) -> None:
    nodes = kubectl(runai_lab, "get nodes -l node-role.kubernetes.io/runai-system -o name")
    assert nodes.split() == [f"node/{runai_lab.node('w1')}"]
    where = "get pods -n runai-backend -o jsonpath='{.items[*].spec.nodeName}'"
    assert set(kubectl(runai_lab, where).split()) == {runai_lab.node("w1")}


def test_a_whole_gpu_job_runs_to_completion(runai_lab: LabSite) -> None:
    document = job("whole", busybox(runai_lab), gpus=1)
    ((node, said),) = run_job(runai_lab, "whole", document)
    print(node, said)  # noqa: T201 - what it saw, for the log
    assert said.startswith("GPU 0: STANDIN")
    assert len(said.splitlines()) == 1


def test_a_fractional_job_runs_to_completion(runai_lab: LabSite) -> None:
    document = job("fraction", busybox(runai_lab), fraction="0.5")
    ((node, said),) = run_job(runai_lab, "fraction", document)
    print(node, said)  # noqa: T201
    assert said.startswith("GPU 0: STANDIN")
    assert len(said.splitlines()) == 1


def test_a_gang_of_two_nodes_runs_to_completion(runai_lab: LabSite) -> None:
    document = job("gang", busybox(runai_lab), gpus=2, pods=2, apart=True)
    found = run_job(runai_lab, "gang", document)
    print(found)  # noqa: T201
    assert {node for node, _ in found} == {runai_lab.node("w1"), runai_lab.node("w2")}
    listed = [line for _, said in found for line in said.splitlines()]
    assert len(set(listed)) == len(listed) == 4


def test_a_gang_that_does_not_fit_whole_does_not_start_in_part(runai_lab: LabSite) -> None:
    document = job("large", busybox(runai_lab), gpus=2, pods=3)
    kubectl(runai_lab, "delete job large --ignore-not-found")
    runai_lab.shell("cp1", f"echo '{document}' | {KUBECTL} apply -f -")
    query = "get pods -l job=large -o jsonpath='{.items[*].status.phase}'"
    wait_for("three pods", lambda: len(kubectl(runai_lab, query).split()) == 3, 120)
    time.sleep(10)
    assert kubectl(runai_lab, query).split() == ["Pending"] * 3
    kubectl(runai_lab, "delete job/large podgroup/large --ignore-not-found --wait=false")


@pytest.mark.parametrize("place", ["state directory", "process lists", "cluster", "nodes"])
def test_no_secret_of_the_install_is_printed_or_stored(
    runai_lab: LabSite, watch: ProcessWatch, commands: Commands, place: str
) -> None:
    world = World(runai_lab, watch, commands)
    assert PLACES[place](world, secrets_of(runai_lab, watch.seen)) == []


@pytest.mark.parametrize(
    "name",
    ["an event of a run", "a process here", "a process of w1", "the journal of w1", "a log of cp1"],
)
def test_a_printed_secret_would_be_found(
    runai_lab: LabSite, watch: ProcessWatch, commands: Commands, name: str
) -> None:
    (place, told, plant), world = CANARIES[name], World(runai_lab, watch, commands)
    canary = f"canary-{name.replace(' ', '-')}"
    with plant(world, canary):
        found = found_in(place, world, canary)
    assert any(told in one for one in found), found
