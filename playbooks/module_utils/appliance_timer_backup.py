"""Make a backup on this control-plane node, without a control host; a systemd timer starts it.

What a node holds is gathered by the modules of ``cluster backup create``, and encrypted here to
public keys: nothing on a node opens it. Python 3.8, standard library. What must not be here: how an
archive is written (``appliance_timer_archive``).
"""

from __future__ import annotations

import shutil
import signal
import time
from pathlib import Path

from ansible.module_utils import appliance_backup, appliance_backup_folder
from ansible.module_utils import appliance_timer_archive as archive
from ansible.module_utils import appliance_timer_record as records
from ansible.module_utils.appliance_timer_record import TimerError, plain

NAME = "backup"
DATABASE = Path("/var/lib/etcd/member/snap/db")
GB = 10**9
# Left free for the node: etcd fails on a full disk.
RESERVE = 2 << 30
# While the backup is written: dumps leave RESERVE, and other programs write, too.
SPARE = 1 << 30


def _needed(site):
    """Return how many bytes a run may take: snapshot, its restored copy, dumps, and the backup."""
    size = DATABASE.stat().st_size if DATABASE.is_file() else 0
    last = archive.kept(site)
    return 3 * size + (2 * last[-1][1] if last else 0) + RESERVE


def require_space(site):
    """Require room for a run.

    Raises:
        TimerError: the disk has too little.
    """
    needed = _needed(site)
    for place in (archive.place(), appliance_backup_folder.PLACE):
        free = shutil.disk_usage(str(place)).free
        if free < needed:
            raise TimerError(
                "the disk of %s has %d MB free, and a backup needs %d MB: see appliance health"
                % (place, free // 10**6, needed // 10**6)
            )


def make(want):
    """Make one backup, let older ones go, and return what is told of it.

    Args:
        want: site, node, kinds, registry, recipients, fingerprints, keep, most_gb, release,
            tool_version, endpoint, elsewhere, seconds, memory_mb.

    Raises:
        TimerError, OSError: there is no new backup; older ones are untouched.
    """
    site, moment = want["site"], time.time()
    left = archive.tidy(site)
    if left:
        records.say("removed what a killed run left: %s" % ", ".join(left))
    # The dumps of a run that was killed are large, and plain text.
    appliance_backup_folder.tidy()
    require_space(site)
    room = want["most_gb"] * GB - archive.used()
    if room <= 0:
        raise TimerError("%s is as large as backup: schedule: most_gb allows" % archive.PLACE)
    name = archive.backup_id(site, moment)
    asked = dict(want, folder=("timer-" + name)[:120])
    with appliance_backup_folder.working_folder(asked["folder"]) as data:
        found = appliance_backup.gather(asked, data)
        etcd = found.told.get("etcd")
        if etcd is None:
            why = [reason for what, reason in found.missing if what == "etcd"]
            raise TimerError("no snapshot of etcd, so no backup: %s" % plain((why or ["?"])[0]))
        beside = archive.write(
            {
                "id": name,
                "site": site,
                "created": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(moment)),
                "release": want["release"],
                "tool_version": want["tool_version"],
                "recipients": want["fingerprints"],
                # What runs here: the release is that of the last install on this node.
                "kubernetes": str(found.told.get("kubernetes") or ""),
            },
            found,
            {
                "moment": moment,
                "node": want["node"],
                "endpoint": want["endpoint"],
                "versions": {"etcd": etcd["version"], "appliance": want["tool_version"]},
                "etcd": etcd,
                "missing": want["elsewhere"],
            },
            {"recipients": want["recipients"], "most_bytes": room, "spare_bytes": SPARE},
        )
    # Of what the site does not ask of this node, that is no fault.
    lacking = [plain("%s: %s" % one, 200) for one in found.missing]
    archive.retire(site, want["keep"], name)
    told = {"id": name, "size": beside["size"], "sha256": beside["sha256"]}
    return dict(told, lacking=len(lacking), first_lack=lacking[0] if lacking else "")


def work():
    """Do one run by the settings of this node."""
    records.require_no_command()
    records.require_no_restore()
    try:
        return make(records.settings(NAME))
    except (LookupError, TypeError, ValueError, appliance_backup_folder.FolderError) as error:
        raise TimerError("%s: %s" % (type(error).__name__, plain(error))) from error


def main():
    """Make a backup, and write down how it ended."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, appliance_backup.ended)
    return records.carry_out(NAME, work)


if __name__ == "__main__":
    raise SystemExit(main())
