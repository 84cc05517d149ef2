"""Run:ai's CLI on jumpboxes: what is planned and refused, and the workflow that carries it out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from ipaddress import IPv4Interface
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from appliance.errors import Interrupted, PlaybookFailed, PreflightFailed, Refused, StepNotVerified
from appliance.model.components.access.kubeconfig import researcher_kubeconfig
from appliance.model.components.access.runai_cli import (
    PROGRAM,
    CliOptions,
    Home,
    Jumpbox,
    Program,
    Researcher,
    choose_nodes,
    expected_keys,
    kubectl_digest,
    plan_cli,
    play_inventory,
)
from appliance.model.plan.play import Play
from appliance.model.plan.steps import BY_NAME, INSTALL
from appliance.model.site.settings import Node, Site
from appliance.model.site.vault_ref import CA_CERTIFICATE
from appliance.workflows.runai.cli import (
    RunaiCliRequest,
    RunaiCliResult,
    runai_cli,
)
from appliance.workflows.session.session import Session
from tests import samples
from tests.fakes import FakeClock, FakeJournal, FakeObserver, run

SHA, OTHER = "ab" * 32, "cd" * 32
FILE = Program("/media/runai", SHA)
ADA = Researcher("ada", "apiVersion: v1\n", {"server": "https://api.rack.test:6443"})
DONE = Jumpbox(SHA, completion_current=True, kubectl="/usr/bin/kubectl",
               users={"ada": Home("current")})  # fmt: skip
BARE = Jumpbox(users={"ada": Home("absent", "/home/ada/.kube/config is not there")})


def rack() -> Site:
    """The sample site with two jumpboxes."""
    site = samples.site(runai={})
    jumpboxes = tuple(
        Node(f"j{number}", IPv4Interface(f"198.18.7.{30 + number}/24"), frozenset({"jumpboxes"}))
        for number in (1, 2)
    )
    return replace(site, nodes=(*site.nodes, *jumpboxes))


def wanted(site: Site, **changes: Any) -> CliOptions:
    given = {"program": FILE, "kubectl_sha256": OTHER, "researchers": (ADA,)}
    return CliOptions(nodes=choose_nodes(site, ("j1",)), **{**given, **changes})


def texts(found: Jumpbox, **changes: Any) -> list[str]:
    site = rack()
    plan = plan_cli(wanted(site, **changes), site, {"j1": found})
    assert plan.refusals == ()
    return [change.text for change in plan.changes]


def refused(found: Jumpbox, **changes: Any) -> tuple[str, str]:
    site = rack()
    (refusal,) = plan_cli(wanted(site, **changes), site, {"j1": found}).refusals
    return refusal.sentence(), refusal.hint


def test_the_sites_jumpboxes_are_meant_unless_nodes_are_named() -> None:
    site = rack()
    assert [node.name for node in choose_nodes(site, ())] == ["j1", "j2"]
    assert BY_NAME["runai_cli"].nodes(site) == choose_nodes(site, ())
    assert BY_NAME["runai_cli"] not in INSTALL
    assert [node.name for node in choose_nodes(site, ("w1",))] == ["w1"]


def test_no_jumpbox_and_none_named_is_refused_and_so_is_a_name_that_is_no_node() -> None:
    with pytest.raises(Refused, match="group jumpboxes is empty") as caught:
        choose_nodes(samples.site(), ())
    assert "--nodes NAME" in (caught.value.hint or "")
    with pytest.raises(Refused, match="j8 is not a node of rack") as caught:
        choose_nodes(rack(), ("j1", "j8", "j9"))
    assert caught.value.details == ("j9 is not a node of rack",)


def test_a_bare_jumpbox_gets_all_of_it() -> None:
    assert texts(BARE) == [
        "/usr/local/bin/runai is installed",
        "/etc/bash_completion.d/runai is written by the program",
        "kubectl is installed from the site's bundle",
        "/home/ada/.kube/config is not there: a researcher's kubeconfig is written",
    ]


def test_one_that_has_all_of_it_gets_nothing_and_needs_no_file() -> None:
    assert texts(DONE) == []
    assert texts(DONE, program=None, kubectl_sha256="") == []


def test_a_given_file_goes_over_another_and_the_vendor_bundles_does_not() -> None:
    old = replace(DONE, program_sha256=OTHER)
    assert texts(old)[0] == f"{PROGRAM} is replaced"
    assert texts(old, program=replace(FILE, replaces=False)) == []
    assert texts(BARE, program=replace(FILE, replaces=False))[0] == f"{PROGRAM} is installed"


@pytest.mark.parametrize(
    ("home", "wanted_text"),
    [
        (Home("loose", "C has mode 0644"), "C has mode 0644: its mode becomes 0600"),
        (Home("outdated", "C has another server"), "C has another server: a researcher's"),
        (Home("foreign", "C is not ours"), "C is not ours: it is moved aside"),
    ],
)
def test_a_kubeconfig_is_brought_right(home: Home, wanted_text: str) -> None:
    (text,) = texts(replace(DONE, users={"ada": home}), replace=True)
    assert text.startswith(wanted_text)


def test_without_a_program_it_is_asked_for_by_name_where_the_vendor_documents_it() -> None:
    said, hint = refused(BARE, program=None)
    assert said.startswith("j1: Run:ai CLI: found no /usr/local/bin/runai and none in the vendor")
    assert "Researcher Command Line Interface" in hint
    assert "svc/researcher-service 4180" in hint
    assert "/cli/linux" in hint


def test_a_program_that_does_not_run_is_refused_unless_another_is_given() -> None:
    broken = replace(DONE, program_fault="exec format error", completion_current=False)
    assert "exec format error" in refused(broken)[0]
    assert texts(broken, program=Program("/media/new", OTHER))


@pytest.mark.parametrize(
    ("found", "changes", "words"),
    [
        (replace(DONE, kubectl=None), {"kubectl_sha256": ""}, "kubectl: found none"),
        (replace(DONE, users={"ada": Home("no user", "x")}), {}, "user ada: found no such user"),
        (replace(DONE, users={"ada": Home("no home", "/h is not there")}), {}, "/h is not there"),
        (replace(DONE, users={"ada": Home("foreign", "not ours")}), {}, "kubeconfig of ada"),
    ],
)
def test_what_is_missing_or_in_the_way_is_named(
    found: Jumpbox, changes: dict[str, Any], words: str
) -> None:
    assert words in refused(found, **changes)[0]


def test_a_jumpbox_that_cannot_resolve_the_api_is_reported() -> None:
    site = rack()
    plan = plan_cli(wanted(site), site, {"j1": replace(DONE, resolves=False)})
    (notice,) = plan.notices
    assert "cannot resolve api.rack.test" in notice.text


def test_what_a_kubeconfig_must_have_is_all_but_tokens_and_namespace() -> None:
    document = researcher_kubeconfig(rack(), "ada", cluster_ca="CA", project="a")
    keys = expected_keys(document)
    assert keys["server"] == "https://api.rack.test:6443"
    assert keys["client-id"] == "runai"
    assert "namespace" not in keys
    lines = {line.strip() for line in yaml.safe_dump(document).splitlines()}
    for key, value in keys.items():
        assert {f"{key}: {value}", f"{key}: '{value}'"} & lines, key


def test_kubectl_is_the_bundles_or_unknown() -> None:
    desired = samples.desired()
    assert kubectl_digest(desired) == ""
    held: Any = (
        SimpleNamespace(kind="image", name="kubectl", sha256=SHA),
        SimpleNamespace(kind="binary", name="kubectl", sha256=OTHER),
    )
    manifest = replace(samples.manifest(), artifacts=held)
    assert kubectl_digest(replace(desired, manifest=manifest)) == OTHER
    assert kubectl_digest(samples.desired(with_bundle=False)) == ""


def test_the_inventory_of_the_run_says_each_node_what_it_lacks() -> None:
    site = rack()
    options = replace(wanted(site), nodes=choose_nodes(site, ()))
    inventory = play_inventory(samples.desired(site), options, {"j1": BARE, "j2": DONE})["all"]
    assert inventory["hosts"] == {
        "j1": {
            "ansible_host": "198.18.7.31",
            "runai_cli_program_file": "/media/runai",
            "runai_cli_kubectl_sha256": OTHER,
        },
        "j2": {
            "ansible_host": "198.18.7.32",
            "runai_cli_program_file": "",
            "runai_cli_kubectl_sha256": "",
        },
    }
    assert inventory["vars"]["runai_cli_artifacts_url"] == "https://198.18.7.11:9443"
    assert inventory["vars"]["runai_cli_ca_certificate"] == CA_CERTIFICATE


class Scene:
    """Jumpboxes, Ansible and an operator in one: a play that succeeds makes its hosts right."""

    def __init__(self, **seen: Jumpbox) -> None:
        self.site = rack()
        self.seen: dict[str, Jumpbox] = {"j1": BARE, "j2": DONE, **seen}
        self.plays: list[Play] = []
        self.journal, self.observer = FakeJournal(), FakeObserver()
        self.fails: BaseException | None = None
        self.without_effect = False
        self.asked = 0
        self.answer = True

    def look(self, desired: CliOptions) -> Mapping[str, Jumpbox]:
        return {node.name: self.seen[node.name] for node in desired.nodes}

    def play(self, play: Play, on_task: Callable[[str, str, bool | None], None]) -> None:
        self.plays.append(play)
        if self.fails:
            raise self.fails
        for name in play.limit:
            on_task(name, "Bring Run:ai's CLI", True)
            if not self.without_effect:
                self.seen[name] = DONE

    def confirm(self, _plan: object) -> bool:
        self.asked += 1
        return self.answer

    def run(self, *, dry_run: bool = False) -> RunaiCliResult:
        desired = replace(wanted(self.site), nodes=choose_nodes(self.site, ()))
        request = RunaiCliRequest(
            samples.desired(self.site), desired, run("runai cli install"), dry_run=dry_run
        )
        return runai_cli(
            request,
            Session(
                jumpboxes=self,
                playbooks=self,
                journal=self.journal,
                lock=self.journal,
                clock=FakeClock(),
                observer=self.observer,
            ),
            self.confirm,
        )


def test_only_the_jumpbox_that_lacks_something_is_played_and_recorded() -> None:
    scene = Scene()
    assert scene.run().done
    (play,) = scene.plays
    assert (play.playbook, play.limit) == ("runai_cli", ("j1",))
    (record,) = scene.journal.records
    assert (record.command, record.step) == ("runai cli install", "runai_cli")
    assert (record.nodes, record.outcome) == (("j1",), "verified")
    assert record.why[0] == "j1: /usr/local/bin/runai is installed"
    assert ("task", "runai_cli", "j1", "Bring Run:ai's CLI", True) in scene.observer.said


def test_a_second_run_plays_nothing_asks_nothing_and_records_nothing() -> None:
    scene = Scene()
    scene.run()
    done = scene.run()
    assert (done.done, done.plan.changes) == (False, ())
    assert (scene.asked, len(scene.plays), len(scene.journal.records)) == (1, 1, 1)


def test_a_dry_run_says_it_and_changes_nothing() -> None:
    scene = Scene()
    assert scene.run(dry_run=True).plan.nodes == ("j1",)
    assert (scene.plays, scene.asked, scene.journal.records) == ([], 0, [])


def test_what_is_not_confirmed_is_not_done() -> None:
    scene = Scene()
    scene.answer = False
    with pytest.raises(Refused, match="not confirmed"):
        scene.run()
    assert scene.plays == []


def test_every_refusal_of_every_jumpbox_is_reported_before_anything_is_changed() -> None:
    missing = {"ada": Home("no user", "there is no user ada")}
    scene = Scene(j1=replace(BARE, users=missing), j2=replace(DONE, users=missing))
    with pytest.raises(PreflightFailed) as caught:
        scene.run()
    assert caught.value.exit_code == 3
    assert caught.value.message.startswith("j1: user ada: found no such user")
    assert caught.value.details[0].startswith("j2: user ada")
    assert (scene.plays, scene.journal.records) == ([], [])


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(PlaybookFailed("j1: no space left"), "failed"), (Interrupted("Ctrl-C"), "interrupted")],
)
def test_a_run_that_fails_is_recorded_as_that(error: Exception, outcome: str) -> None:
    scene = Scene()
    scene.fails = error
    with pytest.raises(type(error)):
        scene.run()
    assert [record.outcome for record in scene.journal.records] == [outcome]


def test_a_change_that_is_not_observed_afterwards_is_not_verified() -> None:
    scene = Scene()
    scene.without_effect = True
    with pytest.raises(StepNotVerified, match="j1: still to do: /usr/local/bin/runai is installed"):
        scene.run()
    assert [record.outcome for record in scene.journal.records] == ["not verified"]
