"""``appliance hardware inspect`` and ``qualify``: what is shown, kept, written and refused."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.local.hardware_models import load_hardware
from appliance.adapters.ssh.call import Answer
from appliance.cli.app import Application
from appliance.cli.exits import run
from appliance.cli.site_session import SiteSession
from appliance.errors import NodeUnreachable
from appliance.model.node.baseline import Passport
from appliance.model.site.settings import Node, Site
from tests import samples
from tests.unit.hardware.burning import Burning, state
from tests.unit.hardware.made_up import DATA, MODEL, document, side

Capture = pytest.CaptureFixture[str]
Answers = dict[str, "dict[str, Any] | str | None"]
MODELS = f"--models={DATA / 'models'}"
# Beside the made-up machine: without BMC or clock, which are of the run.
NOW = {"taken_at": None}


class Nodes:
    """Nodes whose probe answers with a report; None: no answer."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers, self.scripts = answers, dict[str, str]()
        self.archive = ""
        self.burning = Burning()
        self.streams, self.sides = dict[str, str](), dict[str, dict[str, Any]]()

    def run_as_root(self, node: Node, script: str, **more: Any) -> Answer:
        if "--burn-in" in script:
            return self.burning.run_as_root(node, script, **more)
        if "--stream" in script:
            self.streams[node.name] = script
            role = "serve" if '"role":"serve"' in script else "connect"
            return Answer(0, json.dumps(side(role, **self.sides.get(node.name, {}))), "")
        if "--hardware" not in script:
            return Answer(0, self.archive, "")
        self.scripts[node.name] = script
        told = self.answers.get(node.name)
        if told is None:
            raise NodeUnreachable(f"{node.name}: no answer on port 22")
        output = told if isinstance(told, str) else json.dumps({**told, **NOW})
        return Answer(0, output, "")


class Rack:
    def __init__(self, site: Site, answers: Answers) -> None:
        self.site, self.answers, self.nodes = site, answers, Nodes(answers)


@pytest.fixture
def rack(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Rack:
    """One control-plane node and two workers of the made-up model."""
    bare = samples.site(workers=2)
    nodes = tuple(replace(node, hardware=MODEL) for node in bare.nodes)
    found = Rack(replace(bare, nodes=nodes, directory=tmp_path), {})
    for number, node in enumerate(nodes):
        found.answers[node.name] = document({"identity.serial": f"SN-{number}"})

    def connect(_self: Application, _directory: Path, *_: Any, **__: Any) -> SiteSession:
        desired = samples.desired(found.site)
        return SiteSession(found.site, desired, found.nodes, None, None)  # type: ignore[arg-type]

    monkeypatch.setattr(Application, "connect", connect)
    for name in ("APPLIANCE_SITE", "APPLIANCE_OUTPUT"):
        monkeypatch.delenv(name, raising=False)
    return found


@pytest.fixture
def appliance(rack: Rack) -> Callable[..., int]:
    return lambda *words: run(["hardware", *words, "--site", str(rack.site.directory)])


def test_machines_as_they_should_be_qualify(
    appliance: Callable[..., int], rack: Rack, capsys: Capture
) -> None:
    assert appliance("qualify", MODELS) == 0
    assert "--hardware fsync,memory" in rack.nodes.scripts["w1"]
    said = capsys.readouterr().out
    assert [line.split()[:4] for line in said.splitlines()[-3:]] == [
        [name, MODEL, f"SN-{number}", "pass"] for number, name in enumerate(("cp1", "w1", "w2"))
    ]


def test_a_missing_module_is_named_with_what_to_do(
    appliance: Callable[..., int], rack: Rack, capsys: Capture
) -> None:
    rack.answers["w2"] = document({"dimms.C1": {"slot": "C1", "size_bytes": 0}})
    assert appliance("qualify", MODELS) == 5
    said = capsys.readouterr()
    assert "dimm:C1" in said.out
    assert "w2: dimm:C1: found empty, expected a module" in said.err
    assert "insert or reseat the module in C1" in said.err


def test_what_is_unknown_does_not_pass(
    appliance: Callable[..., int], rack: Rack, capsys: Capture
) -> None:
    rack.answers["w1"] = document({"dimms": None, "unknown": {"dimms": "dmidecode: needs root"}})
    assert appliance("qualify", "w1", MODELS, "-o", "json") == 5
    (node,) = json.loads(capsys.readouterr().out)["nodes"]
    assert node["verdict"] == "unknown"
    assert node["findings"][0]["found"] == "unknown: dmidecode: needs root"


def test_one_node_with_another_bios_is_an_outlier(
    appliance: Callable[..., int], rack: Rack, capsys: Capture
) -> None:
    rack.answers["w1"] = document({"firmware.bios": "2.13"})
    assert appliance("qualify", MODELS) == 5
    assert "w1: batch:bios: found 2.13, expected 2.12, as 2 of 3" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (None, "no answer on port 22"),
        ("", "no output"),
        ("{", "not JSON"),
        ("{}", "not a report of hardware"),
        ('{"schema": 1, "kind": "hardware", "source": "probe", "dimms": 7}', "dimms"),
    ],
)
def test_a_node_that_does_not_answer_or_lies_is_named(
    appliance: Callable[..., int], rack: Rack, capsys: Capture, answer: Any, reason: str
) -> None:
    rack.answers["w1"] = answer
    assert appliance("qualify", MODELS) == 5
    said = capsys.readouterr()
    assert "w1: nothing was read" in said.err
    assert reason in said.err
    assert "Traceback" not in said.err
    assert appliance("inspect") == 4
    assert "w1: nothing was read" in capsys.readouterr().err


def test_the_record_is_kept_privately(appliance: Callable[..., int], rack: Rack) -> None:
    assert appliance("qualify", "w1", MODELS) == 0
    path = rack.site.directory / ".appliance/hardware/w1.json"
    kept = json.loads(path.read_text())
    assert (kept["serial"], kept["verdict"], kept["by"]) == ("SN-1", "pass", "USER@HOST")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_passport_of_another_machine_keeps_the_record_from_the_nodes(
    appliance: Callable[..., int], rack: Rack, capsys: Capture
) -> None:
    passport = Passport("w1", {"machine": "SN-other"}).text()
    rack.nodes.archive = f"7 w1.json\n{base64.b64encode(passport.encode()).decode()}\n"
    assert appliance("qualify", "w1", MODELS) == 0
    assert "it does not show the machine of the passport (serial SN-other)" in (
        capsys.readouterr().err
    )


def test_the_report_has_a_page_for_each_node_and_nothing_from_outside(
    appliance: Callable[..., int], rack: Rack, tmp_path: Path, capsys: Capture
) -> None:
    rack.answers["w1"] = document({"disks.nvme0n1.serial": "<script>alert(1)</script>"})
    report = tmp_path / "rack.html"
    assert appliance("qualify", MODELS, "--report", str(report)) == 0
    text = report.read_text()
    assert text.count("<section>") == 4
    assert text.count("<th>signature</th>") == 3
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert not any(word in text for word in ("src=", "href=", "http:", "https:", "url("))
    assert appliance("qualify", "w1", MODELS, "--report", str(report)) == 0
    report.write_text("my notes")
    assert appliance("qualify", MODELS, "--report", str(report)) == 3
    assert "exists, and is no report" in capsys.readouterr().err
    assert report.read_text() == "my notes"


def test_without_trials_nothing_is_written_on_a_node(
    appliance: Callable[..., int], rack: Rack
) -> None:
    assert appliance("qualify", MODELS, "--no-trials") == 0
    assert "--hardware none" in rack.nodes.scripts["w1"]
    assert rack.nodes.streams == {}


def test_a_slow_network_is_one_machines_fault(
    appliance: Callable[..., int], rack: Rack, capsys: Capture
) -> None:
    rack.nodes.sides["w2"] = {"sent_seconds": 8.0}
    assert appliance("qualify", MODELS) == 5
    said = capsys.readouterr()
    assert "w2: network:w1: found 4.29 Gb/s there, 17.2 Gb/s back, expected at least 12" in said.err
    assert "- w1" not in said.err
    assert appliance("qualify", MODELS, "-o", "json") == 5
    nodes = {one["node"]: one for one in json.loads(capsys.readouterr().out)["nodes"]}
    assert [one["sent_mbps"] for one in nodes["w2"]["streams"]] == [4295, 4295]


@pytest.mark.parametrize(("more", "word"), [((), "false"), (("--allow-pods",), "true")])
def test_pods_are_disturbed_only_when_that_is_asked_for(
    appliance: Callable[..., int], rack: Rack, more: tuple[str, ...], word: str
) -> None:
    assert appliance("qualify", MODELS, *more) == 0
    assert f'"among_pods":{word}' in rack.nodes.streams["w1"]
    assert ("--hardware fsync,memory,pods" in rack.nodes.scripts["w1"]) is bool(more)


def burnt_in(rack: Rack, *names: str) -> Burning:
    """Nodes whose burn-in ended well; which machine each is, its probe tells as well."""
    burning = rack.nodes.burning
    for number, node in enumerate(rack.site.nodes):
        if node.name in names:
            burning.states[node.name] = state({"identity/serial": f"SN-{number}"})
    return burning


def test_a_burn_in_is_shown_and_kept_by_serial(
    appliance: Callable[..., int], rack: Rack, capsys: Capture
) -> None:
    burnt_in(rack, "w1")
    assert appliance("burn-in") == 0
    said = capsys.readouterr().out
    rows = [line.split() for line in said.splitlines()[-3:]]
    assert [row[:3] for row in rows] == [
        ["cp1", "-", "none"], ["w1", "SN-1", "ended"], ["w2", "-", "none"],
    ]  # fmt: skip
    assert (rack.site.directory / ".appliance/burn-in/SN-1.json").stat().st_mode & 0o777 == 0o600
    assert appliance("qualify", MODELS, "--no-trials") == 0
    capsys.readouterr()
    assert appliance("qualify", "w1", MODELS, "--no-trials", "-o", "json") == 0
    (node,) = json.loads(capsys.readouterr().out)["nodes"]
    assert node["burn_in"]["burn_in"]["samples"] == 480


def test_a_burn_in_that_failed_fails_the_machine_and_no_other(
    appliance: Callable[..., int], rack: Rack, capsys: Capture
) -> None:
    burning = burnt_in(rack, "w1", "w2")
    burning.states["w1"]["work"]["memory"]["errors"] = 1
    assert appliance("burn-in") == 5
    assert "w1: burn-in:memory: found 1 errors, expected no wrong block" in capsys.readouterr().err
    assert appliance("qualify", MODELS, "--no-trials") == 5
    said = capsys.readouterr().err
    assert "w1: burn-in:memory" in said
    assert "w2" not in said
    rack.answers["w1"] = document({"identity.serial": "SN-new"})
    assert appliance("qualify", "w1", MODELS, "--no-trials") == 0


def test_a_burn_in_that_runs_is_no_pass_and_no_failure(
    appliance: Callable[..., int], rack: Rack, capsys: Capture
) -> None:
    burning = burnt_in(rack, "w1")
    burning.running.add("w1")
    burning.states["w1"].update(ended=None, seconds=7200.0, samples=120)
    assert appliance("burn-in", "w1") == 0
    said = capsys.readouterr().out
    assert "2.0 h of 8.0 h" in said
    assert "to end it: appliance hardware burn-in --end" in said
    assert appliance("qualify", "w1", MODELS, "--no-trials") == 5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--hours", "8", "--end"), "exclude each other"),
        (("--again",), "--again needs --hours"),
        (("--memory", "4"), "--memory needs --hours"),
        (("--hours", "0"), "not in the range"),
        (("--hours", "73"), "not in the range"),
        (("--hours", "nan"), "--hours is no finite number"),
        (("--hours", "1", "--memory", "inf"), "--memory is no finite number"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    appliance: Callable[..., int], capsys: Capture, words: tuple[str, ...], said: str
) -> None:
    assert appliance("burn-in", *words) == 2
    assert said in capsys.readouterr().err


def test_ctrl_c_leaves_the_burn_in_and_says_how_to_go_on(
    appliance: Callable[..., int], rack: Rack, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    burning = burnt_in(rack, "w1")
    burning.running.add("w1")
    burning.states["w1"].update(ended=None)

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("appliance.adapters.local.clock.SystemClock.sleep", interrupt)
    assert appliance("burn-in", "w1", "--watch") == 130
    said = capsys.readouterr().err
    assert "goes on without this machine" in said
    assert "look at it: appliance hardware burn-in w1" in said
    assert "end it: appliance hardware burn-in w1 --end" in said
    assert burning.running == {"w1"}


def test_inspect_shows_facts_and_reasons(
    appliance: Callable[..., int], rack: Rack, capsys: Capture
) -> None:
    rack.answers["w1"] = document({"gpus": None, "unknown": {"gpus": "lspci: broken"}})
    assert appliance("inspect", "w1") == 0
    said = capsys.readouterr().out
    assert "unknown: lspci: broken" in said
    assert "dimm:A1" in said
    assert "--hardware none" in rack.nodes.scripts["w1"]
    assert appliance("inspect", "w1", "-o", "json") == 0
    (node,) = json.loads(capsys.readouterr().out)["nodes"]
    assert node["probe"]["unknown"] == {"gpus": "lspci: broken"}
    assert node["bmc"] is None


def test_a_node_without_a_bmc_says_so(
    appliance: Callable[..., int], rack: Rack, capsys: Capture
) -> None:
    assert appliance("inspect", "w1", "--by", "bmc") == 4
    assert "no bmc_address" in capsys.readouterr().err
    assert rack.nodes.scripts == {}


def test_what_a_machine_shows_is_written_into_its_models_file(
    appliance: Callable[..., int], rack: Rack, tmp_path: Path, capsys: Capture
) -> None:
    folder = tmp_path / "learnt"
    rack.answers["w1"] = document({"identity.product": "X1-3U"})
    assert appliance("inspect", "w1", MODELS, "--write", str(folder)) == 0
    said = capsys.readouterr().out
    assert f"written: {folder}/acme/x1.yml" in said
    assert "2 GPUs, 4 modules, 1 disks" in said
    model = load_hardware(folder)[MODEL]
    assert (model.dmi.vendor, model.dmi.product) == ("Acme Inc.", "X1-3U")
    assert model.shows.dimms_in == ("A1", "B1", "C1", "D1")
    assert (model.shows.gpus, model.shows.gpu_ids) == (2, ("10de:2235", "10de:2235"))
    assert model.shows.read_from is not None
    assert (model.shows.read_from.serial, model.shows.read_from.by) == ("SN-1", "probe")
    before = load_hardware(DATA / "models")[MODEL]
    assert (model.platform, model.reference, model.wanted) == (
        before.platform,
        before.reference,
        before.wanted,
    )
    assert [one.fact for one in model.sources] == ["dmi.vendor", "dmi.product"]
    assert appliance("qualify", "w1", f"--models={folder}") == 0


def test_nothing_is_learnt_from_a_machine_that_does_not_say_what_it_is(
    appliance: Callable[..., int], rack: Rack, tmp_path: Path, capsys: Capture
) -> None:
    rack.answers["w1"] = document(
        {"identity": {}, "unknown": {"identity": "in a container the firmware is the host's"}}
    )
    assert appliance("inspect", "w1", MODELS, "--write", str(tmp_path / "learnt")) == 3
    assert "in a container" in capsys.readouterr().err
    assert not (tmp_path / "learnt").exists()


def test_an_unknown_node_or_model_is_refused(
    appliance: Callable[..., int], rack: Rack, capsys: Capture
) -> None:
    assert appliance("qualify", "w11") == 3
    assert "did you mean 'w1'" in capsys.readouterr().err
    assert appliance("qualify", "w1") == 3
    assert "w1: its host_vars name the unknown model 'acme/x1'" in capsys.readouterr().err
    nodes = tuple(replace(node, hardware=None) for node in rack.site.nodes)
    rack.site = replace(rack.site, nodes=nodes)
    assert appliance("qualify", "w1") == 3
    assert "w1: its host_vars name no model" in capsys.readouterr().err


def test_a_stand_in_of_the_lab_is_not_judged(
    appliance: Callable[..., int], rack: Rack, capsys: Capture
) -> None:
    nodes = tuple(replace(node, hardware="lab/container") for node in rack.site.nodes)
    rack.site = replace(rack.site, nodes=nodes)
    assert appliance("qualify") == 0
    assert "note" in capsys.readouterr().out
