"""The wall clock is for records: nothing is waited for, or limited, by a clock that can be set."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.contract import tree

# Where the time of day is read -> what for. A wait is measured by workflows/session/patience.py.
RECORDS = {
    "appliance/adapters/site/authorities.py": "a certificate's days",
    "appliance/adapters/local/clock.py": "the clock itself",
    "appliance/adapters/control_plane/journal.py": "the time that is part of a run's id",
    "appliance/adapters/kubernetes/pod_tests/annotated.py": "when the network was proved",
    "appliance/adapters/runai/certificate.py": "a certificate's days",
    "appliance/adapters/ssh/probing/answer.py": "when a node's facts arrived",
    "appliance/cli/commands/cluster/backup_fetch.py": "whether a backup is of a time to come",
    "appliance/cli/commands/cluster/rehearsal.py": "when a run of a rehearsal began",
    "appliance/cli/commands/bundle/parts.py": "when a bundle was built",
    "appliance/adapters/local/this_machine.py": "a certificate's days",
    "appliance/probe/collect.py": "when a node's facts were taken",
    "appliance/probe/network/naming.py": "what a node's clock says",
    "appliance/workflows/node/maintenance/eviction.py": "since when a node is cordoned",
    "appliance/workflows/node/imaging/batch.py": "when the installation of a server began",
    "appliance/workflows/rack/down.py": "when a rack was taken down",
    "appliance/workflows/reset.py": "when a reset began",
    "appliance/workflows/rack/power_off.py": "when a node was ordered off",
    "appliance/workflows/node/maintain.py": "the window that was announced",
    "appliance/workflows/node/maintenance/taking_out.py": "the window that is announced",
    "appliance/adapters/hardware/machines.py": "by how much a node's clock is off",
    "appliance/workflows/hardware/qualifying.py": "when a machine was qualified",
    "appliance/probe/inspection/report.py": "what a node's clock says",
    "appliance/probe/burn_in/run.py": "when a burn-in began and ended, and each sample",
    "appliance/workflows/hardware/burn_in.py": "when a burn-in was collected",
    "appliance/adapters/support/archive.py": "the time of a file in an archive",
    "appliance/workflows/status.py": "how long ago a timer ran",
    "appliance/workflows/horizon.py": "a certificate's days",
    "appliance/workflows/cluster/cleaning/look.py": "how old the folder of a run is",
    "playbooks/module_utils/appliance_timer_backup.py": "when a node made a backup",
    "playbooks/module_utils/appliance_timer_record.py": "when a timer ran",
    "playbooks/module_utils/appliance_supply.py": "whether an image was pushed a moment ago",
    "appliance/workflows/support/bundle.py": "which logs are of the time that was asked for",
    "appliance/workflows/cluster/backup.py": "when a backup was made, and which ones are old",
    "appliance/workflows/cluster/backups/freshness.py": "how old the newest backup is",
    "appliance/workflows/cluster/restore.py": "how old a backup is, and the name of a restore",
    "appliance/workflows/cluster/restoring/images.py": "how old a backup is",
    "appliance/workflows/cluster/restoring/database.py": "how old a backup is",
    "appliance/workflows/cluster/restoring/volumes.py": "how old a backup is; names that say when",
    "appliance/workflows/cluster/restoring/new_machines.py": "how old a backup is",
    "playbooks/module_utils/appliance_new_machine.py": "when a machine was claimed, in its mark",
    "appliance/workflows/cluster/upgrading/run.py": "since when an upgrade is under way",
    "appliance/workflows/cluster/upgrading/nodes.py": "since when a node is cordoned",
    "appliance/cli/commands/hardware/bmc_password.py": "on which day a password was replaced",
    "appliance/cli/commands/site/packages.py": "when nodes said which packages they have",
    "appliance/workflows/node/remove.py": "when a node was removed",
    "appliance/workflows/node/return_.py": "by how much a window was overrun",
    "appliance/workflows/node/baselines.py": "when a node was accepted",
    "appliance/workflows/session/recording.py": "when a step began",
    "playbooks/library/service_current.py": "whether files are newer than a service",
    "roles/etcd_restore/module_utils/etcd_restoration.py": "when an act of a restore ended",
    "roles/runai_upgrade/library/runai_saved_state.py": "how old a dump is",
    "roles/runai_upgrade/module_utils/runai_dump.py": "when a dump was begun",
    "roles/site_certificate/library/certificate_sign.py": "a certificate's days",
}
SOURCES = ("appliance", "playbooks", "roles")
NAMES = {"time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "datetime.today"}
ENDS = {"deadline", "until", "patience", "expires", "timeout"}


def wall_clocks(text: str) -> Iterator[tuple[ast.Call, ast.stmt]]:
    """Each reading of the wall clock, with the statement that it stands in."""
    for statement in ast.walk(ast.parse(text)):
        if isinstance(statement, ast.stmt):
            for node in ast.walk(statement):
                if isinstance(node, ast.Call):
                    name = ast.unparse(node.func)
                    short = ".".join(name.split(".")[-2:])
                    if short in NAMES or short in ("clock.now", "_clock.now"):
                        yield node, statement


def read() -> dict[str, str]:
    return {
        str(path): tree.read(path)
        for path in tree.under(*SOURCES)
        if path.suffix == ".py" and not path.is_relative_to("appliance/lab")
    }


def test_each_place_that_reads_the_wall_clock_says_what_it_is_for() -> None:
    assert {file for file, text in read().items() if any(wall_clocks(text))} == set(RECORDS)


def test_no_wait_is_measured_by_the_wall_clock() -> None:
    wrong = [
        f"{file}:{call.lineno}: {ast.unparse(statement).splitlines()[0]}"
        for file, text in read().items()
        for call, statement in wall_clocks(text)
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.While | ast.If)
        and judges(statement)
    ]
    assert wrong == []


def judges(statement: ast.stmt) -> bool:
    """Whether a reading becomes a deadline here, or decides whether to go on."""
    if isinstance(statement, ast.While | ast.If):
        return any(True for _ in wall_clocks(ast.unparse(statement.test)))
    targets = ast.unparse(statement).partition("=")[0].lower()
    return any(word in targets for word in ENDS)


def test_this_finds_a_deadline_by_the_wall_clock() -> None:
    for text in (
        "deadline = time.time() + 3",
        "while self._clock.now() < x:\n    pass",
        "if datetime.now(UTC) > end:\n    raise X",
    ):
        assert any(judges(statement) for _, statement in wall_clocks(text)), text
