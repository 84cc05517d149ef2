"""Timers of systemd, as the site asks for them; the programs find their modules."""

import json

import pytest

PROGRAMS, SETTINGS = "/var/lib/appliance/timer-programs", "/etc/appliance/timers"
UNITS, BACKUPS = "/etc/systemd/system", "/var/backups/appliance"
IMPORT = (
    f"import sys; sys.path.insert(0, '{PROGRAMS}'); "
    "from ansible.module_utils import appliance_timer_backup, appliance_timer_certificates"
)


@pytest.mark.parametrize("name", ["backup", "certificates"])
def test_a_timer_waits_for_its_time(host, name):
    timer = f"appliance-timed-{name}.timer"
    assert host.service(timer).is_running
    assert host.service(timer).is_enabled
    shown = host.run_expect([0], f"systemctl show --property NextElapseUSecRealtime {timer}").stdout
    assert shown.strip().partition("=")[2]


def test_the_programs_find_their_modules_and_settings(host):
    host.run_expect([0], f'/usr/bin/python3 -I -B -c "{IMPORT}"')
    for name, wanted in (("backup", {"keep": 2}), ("certificates", {"within_days": 45})):
        assert json.loads(host.file(f"{SETTINGS}/{name}.json").content_string) == wanted
    assert host.file(BACKUPS).mode == 0o700


@pytest.mark.parametrize(
    ("commands", "tasks"),
    [
        ([f"rm {SETTINGS}/backup.json"], 1),
        ([f"rm {PROGRAMS}/ansible/module_utils/appliance_job.py"], 1),
        (["systemctl disable --now appliance-timed-certificates.timer"], 1),
        ([f"sed -i s/02:30/04:30/ {UNITS}/appliance-timed-backup.timer"], 2),
    ],
    ids=["settings", "a module", "a timer that is off", "another time"],
)
def test_drift_is_reported_and_repaired(drift, commands, tasks):
    drift(commands, tasks)


def test_a_timer_that_the_site_wants_no_more_goes_and_its_backups_stay(host, converge_again):
    host.run_expect([0], f"touch {BACKUPS}/kept.backup")
    off = ("--extra-vars", json.dumps({"node_timers_backup": {"settings": "", "calendar": ""}}))
    assert converge_again(*off) == 1
    assert converge_again(*off) == 0
    for kind in ("timer", "service"):
        assert not host.file(f"{UNITS}/appliance-timed-backup.{kind}").exists
    assert host.file(f"{BACKUPS}/kept.backup").exists
    assert host.service("appliance-timed-certificates.timer").is_running
