"""What a new kubelet's unit would write over is named, and nothing that this tool wrote."""

from __future__ import annotations

from typing import Any

import pytest

from appliance.adapters.local.content import list_releases, load_release
from appliance.model.upgrade.evidence import Silence
from appliance.model.upgrade.handmade.kubelet_units import DROP_IN, UNIT, unit_changes
from appliance.model.upgrade.handmade.loss import Loss
from appliance.model.upgrade.losses import Carrier, find_losses
from appliance.model.upgrade.rehearsal.handmade import handmade_of, reason_not_made
from tests.unit.upgrade.handmade import documents, units, untouched


def losses(part: str, text: object, node: str = "w1") -> dict[str, Loss]:
    """Name -> what would be lost, with another file on one node."""
    found = untouched()
    found["kubelet_units"][node][part] = text
    lost = find_losses(documents(found), Carrier())
    assert not isinstance(lost, Silence), lost
    return {loss.name: loss for loss in lost}


def edited(part: str, old: str, new: str) -> str:
    text: str = units()[part]
    assert old in text
    return text.replace(old, new)


@pytest.mark.parametrize("release", list_releases())
def test_nothing_that_the_role_writes_for_a_release_is_hand_made(release: str) -> None:
    for part, text in units(load_release(release).runtime.name).items():
        assert unit_changes(part, text) == ()


def test_order_comments_and_blank_lines_mean_nothing() -> None:
    head, *lines = units()[UNIT].split("[Service]\n")[1].split("\n")
    first = units()[UNIT].split("[Service]\n")[0]
    turned = f"; ours\n\n{first}[Service]\n# x\n" + "\n".join(lines[:2]) + f"\n  {head}\n"
    assert unit_changes(UNIT, turned + "[Install]\nWantedBy = multi-user.target\n") == ()


def test_a_long_line_may_be_broken() -> None:
    text = edited(
        DROP_IN, "kubelet $KUBELET_KUBECONFIG_ARGS", "kubelet \\\n# x\n $KUBELET_KUBECONFIG_ARGS"
    )
    assert unit_changes(DROP_IN, text) == ()


CASES: dict[str, tuple[str, str, str, set[str]]] = {
    "another way to start again": (UNIT, "always", "on-failure", {"Service.Restart"}),
    "a setting of somebody's own": (
        UNIT,
        "RestartSec=5",
        "RestartSec=5\nLimitNOFILE=1048576",
        {"Service.LimitNOFILE"},
    ),
    "a unit that is waited for": (
        UNIT,
        "docker.service",
        "docker.service data.mount",
        {"Unit.After"},
    ),
    "a runtime that no release has": (UNIT, "docker.service", "crio.service", {"Unit.After"}),
    "a setting that was removed": (
        UNIT,
        "StartLimitIntervalSec=0\n",
        "",
        {"Unit.StartLimitIntervalSec"},
    ),
    "an argument of the kubelet": (
        DROP_IN,
        "$KUBELET_KUBEADM_ARGS",
        "$KUBELET_KUBEADM_ARGS --v=4",
        {"Service.ExecStart"},
    ),
    "a variable": (
        DROP_IN,
        "ExecStart=\n",
        'Environment="HTTPS_PROXY=http://198.18.7.9:3128" GODEBUG=x\nExecStart=\n',
        {"Service.Environment.HTTPS_PROXY", "Service.Environment.GODEBUG"},
    ),
    "an argument among those of kubeadm": (
        DROP_IN,
        "config.yaml",
        "config.yaml --v=4",
        {"Service.Environment.KUBELET_CONFIG_ARGS"},
    ),
    "variables that are taken away": (
        DROP_IN,
        "EnvironmentFile",
        "Environment=\nEnvironmentFile",
        {
            "Service.Environment.KUBELET_CONFIG_ARGS",
            "Service.Environment.KUBELET_KUBECONFIG_ARGS",
        },
    ),
    "a file of variables": (
        DROP_IN,
        "kubeadm-flags.env",
        "kubeadm-flags.env\nEnvironmentFile=-/etc/default/kubelet",
        {"Service.EnvironmentFile"},
    ),
    "a quote that does not end": (
        DROP_IN,
        "ExecStart=\n",
        'Environment="A=b\nExecStart=\n',
        {'Service.Environment."A'},
    ),
    "a line that is none": (UNIT, "Restart=always", "Restart=always\nhello", {"Service.hello"}),
}


@pytest.mark.parametrize(("part", "old", "new", "names"), CASES.values(), ids=CASES)
def test_what_differs_from_what_this_tool_writes_is_named(
    part: str, old: str, new: str, names: set[str]
) -> None:
    found = losses(part, edited(part, old, new))
    assert found.keys() == {f"{part}.{name}" for name in names}
    assert all(loss.nodes == ("w1",) for loss in found.values())


def test_it_says_what_was_and_what_this_tool_writes() -> None:
    (loss,) = losses(UNIT, edited(UNIT, "always", "on-failure")).values()
    assert loss.sentence() == (
        "kubelet-unit.Service.Restart on w1 is on-failure; this tool writes always"
    )


def test_the_same_edit_on_several_nodes_is_one_loss() -> None:
    found, text = untouched(), edited(UNIT, "always", "no")
    for node in found["kubelet_units"]:
        found["kubelet_units"][node][UNIT] = text
    (loss,) = find_losses(documents(found), Carrier())  # type: ignore[misc]
    assert loss.nodes == ("cp1", "cp2", "w1")


@pytest.mark.parametrize(
    "line",
    ["Environment=DB_PASSWORD=hunter2-hunter2", "ExecStartPre=/x --password=hunter2-hunter2"],
)
def test_a_secret_is_not_shown_and_not_kept(line: str) -> None:
    text = edited(DROP_IN, "ExecStart=\n", f"{line}\nExecStart=\n")
    (loss,) = losses(DROP_IN, text).values()
    assert "hunter2" not in loss.sentence() + loss.label
    found = untouched()
    found["kubelet_units"]["w1"][DROP_IN] = text
    assert "hunter2" not in str(handmade_of(documents(found)))


HOSTILE: dict[str, str] = {
    "commands to the terminal": "[\x1b[2J]\n\x1b[31m=\x1b]0;x\x07\n\u202eA=b",
    "half a character": "[Service]\n\ud800=\ud800",
    "lines without end": "a=b\n" * 4000,
    "sections without end": "".join(f"[{n}]\na=b\n" for n in range(1500)),
    "a name without end": "x" * 16_000 + "=1",
    "quotes without end": "[Service]\nEnvironment=" + "'\"" * 7000,
    "lines that go on": "\\\n" * 8000,
    "zeros": "\0" * 16_000,
    "nothing": "",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_whatever_a_node_writes_is_told_in_short_lines(text: str) -> None:
    found = losses(UNIT, text)
    assert found
    for loss in found.values():
        said = loss.sentence() + loss.label
        assert len(said) < 600
        assert said.isprintable()


@pytest.mark.parametrize("files", [{UNIT: Silence("no answer")}, {DROP_IN: Silence("large")}, {}])
def test_a_file_that_was_not_read_is_unknown(files: dict[str, Any]) -> None:
    found = untouched()
    found["kubelet_units"]["w1"] = {**units(), **files} if files else {}
    lost = find_losses(documents(found), Carrier())
    assert isinstance(lost, Silence)
    assert lost.reason.startswith("w1: /etc/systemd/system/kubelet.service")


def test_a_rehearsal_tells_it_and_does_not_make_it() -> None:
    found = untouched()
    found["kubelet_units"]["w1"][UNIT] = edited(UNIT, "always", "no")
    kept = handmade_of(documents(found))
    assert not isinstance(kept, Silence)
    (one,) = kept["w1"]
    assert one.sentence() == "kubelet-unit.Service.Restart is no; this tool writes always"
    assert reason_not_made(one) == "a lab keeps the kubelet's unit as this tool writes it"


def test_a_node_whose_unit_was_not_read_is_not_said_to_have_no_such_setting() -> None:
    found = untouched()
    found["kubelet_units"]["w1"][UNIT] = Silence("no answer")
    kept = handmade_of(documents(found))
    assert not isinstance(kept, Silence)
    assert set(kept) == {"", "cp1", "cp2"}
