"""Put a snapshot of etcd in the place of this control-plane node's data, act by act.

Each act is written into a mark, and a second run goes on where the first was killed. What runs is
stopped by moving kubeadm's manifests into a folder of ours, and back. Old data is moved aside and
never deleted. A member counts as this restore's once the mark says that the old one went aside.
Python 3.8, standard library. What must not be here: whether the cluster may be restored (the
control host decides that), or how the snapshot came here.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from pathlib import Path

from ansible.module_utils import (
    appliance_api_ending,
    appliance_etcd_trial,
    appliance_files,
    appliance_programs,
    control_plane_answers,
    etcd_image_programs,
    etcd_salvage,
    restored_files,
)

RESTORES = "var/lib/appliance/restore"
ETCD = "var/lib/etcd"
MANIFESTS = "etc/kubernetes/manifests"
SCHEMA = 1
MARK, SNAPSHOT, STOPPED, PROGRAMS = "mark.json", "snapshot.db", "manifests", "programs"
# What api_watchers writes here; it stays as a record, like the mark.
WATCHERS = "watchers.json"
# The data of a survivor, and what the scratch etcd over it says.
COPY, COPY_LOG = "copy", "copy.log"
# etcd allocates two segments of its log, of 64 MB each.
EXTRA_BYTES = 256 << 20
MB = 1000 * 1000
# In the order in which they stop; they start in the other one.
PODS = ("kube-controller-manager", "kube-scheduler", "kube-apiserver", "etcd")
# What a write that was killed leaves.
HALF = tuple(".%s.yaml.new" % name for name in PODS)
HALF_MARKS = (MARK + ".new", ".mark.json.new", ".watchers.json.new")
BROUGHT = (SNAPSHOT, SNAPSHOT + ".part", COPY_LOG, *HALF_MARKS)
OURS = (MARK, WATCHERS, STOPPED, PROGRAMS, COPY, *BROUGHT)
KEY = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,150}\Z")
FLAG = re.compile(r'^\s*- "?(--[^"]+?)"?\s*$', re.MULTILINE)
IMAGE = re.compile(r"^\s*image:\s*[\"']?([^\s\"']+)", re.MULTILINE)
PROC = Path("/proc")


class RestorationError(Exception):
    """An act did not end; the text has the reason."""


class Restoration:
    """One restore on this node.

    Args:
        key: the word for this restore, the same on every node.
        root: the folder used as /.
        seconds: how long each wait may last.
    """

    clock = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)
    # Watches keep a server that ends for half a minute, and what they see is replaced anyway.
    ending = appliance_api_ending.EndingServers

    def __init__(self, key, root="/", seconds=300):
        if not KEY.match(key):
            raise RestorationError("no word for a restore: %r" % key)
        self._key = key
        self._root = Path(root)
        self._seconds = seconds
        self.folder = self._root / RESTORES / key
        self._etcd = self._root / ETCD
        self._manifests = self._root / MANIFESTS

    # -- the mark ----------------------------------------------------------------------------

    def mark(self):
        """Return what is written of this restore.

        Raises:
            RestorationError: the mark is not readable, or of another restore.
        """
        try:
            found = json.loads((self.folder / MARK).read_text())
        except FileNotFoundError:
            return {"schema": SCHEMA, "key": self._key, "acts": {}}
        except (OSError, ValueError) as error:
            raise RestorationError(
                "%s is not readable: %s; move it away, then run again" % (self.folder / MARK, error)
            ) from error
        if not isinstance(found, dict) or found.get("key") != self._key:
            raise RestorationError("%s is of another restore" % (self.folder / MARK))
        return found

    def _write(self, mark, **more):
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        text = json.dumps(dict(mark, **more), sort_keys=True)
        appliance_files.write(self.folder / MARK, text, 0o600)

    def did(self, act):
        """Return whether an act of this restore ended here."""
        return act in self.mark().get("acts", {})

    def end_act(self, act, **more):
        """Write that an act ended."""
        mark = self.mark()
        self._write(mark, acts=dict(mark.get("acts", {}), **{act: int(time.time())}), **more)

    # -- stop --------------------------------------------------------------------------------

    def stop(self):
        """Stop the static pods of the control plane; return whether anything was done.

        Raises:
            RestorationError: one still runs, or its manifest is nowhere.
        """
        if self.did("stop"):
            return False
        self._write(self.mark())
        stopped = self.folder / STOPPED
        stopped.mkdir(mode=0o700, exist_ok=True)
        self._inherit(stopped)
        with self.ending():
            self._move_manifests(stopped)
            self._wait(self._all_stopped, "still runs although its manifest is gone")
        self.end_act("stop")
        return True

    def _move_manifests(self, stopped):
        for name in PODS:
            restored_files.move(self._manifests / (name + ".yaml"), stopped / (name + ".yaml"))
        missing = [name for name in PODS if not (stopped / (name + ".yaml")).is_file()]
        if missing:
            raise RestorationError(
                "%s: kubeadm's manifest of %s is not there; restore this node by rejoining it: "
                "leave it out" % (self._manifests, ", ".join(missing))
            )

    def _inherit(self, stopped):
        """Take over manifests that an earlier restore stopped and did not start again."""
        for other in sorted((self._root / RESTORES).iterdir()):
            for name in PODS:
                held = other / STOPPED / (name + ".yaml")
                if other != self.folder and held.is_file():
                    restored_files.move(held, stopped / held.name)

    def _all_stopped(self):
        running = [name for name in PODS if self._processes(name)]
        return "" if not running else ", ".join(running)

    def _processes(self, name):
        manifest = self.folder / STOPPED / (name + ".yaml")
        if not manifest.exists():
            manifest = self._manifests / (name + ".yaml")
        flags = FLAG.findall(manifest.read_text()) if manifest.exists() else []
        return control_plane_answers.processes(name, flags, PROC)

    # -- salvage -----------------------------------------------------------------------------

    def salvage(self):
        """Make a snapshot of this node's own data, which has no majority any more.

        A copy of the data is served by a scratch etcd as a cluster of its own: so entries of the
        log that are not in the database yet are kept. The data itself is not written.

        Raises:
            RestorationError: there is no data, or its etcd does not serve a copy of it.
        """
        snapshot = self.folder / SNAPSHOT
        if self.did("salvage") or self.did("place"):
            return False
        running = self._all_stopped()
        if running:
            raise RestorationError("%s runs here: its data is not copied" % running)
        if not (self._etcd / "member").is_dir():
            raise RestorationError("%s has no data of a member" % self._etcd)
        self._programs()
        copy = self.folder / COPY
        if copy.exists():
            # Of a run that was killed: named by us, and written by nobody but this function.
            shutil.rmtree(str(copy))
        self._need_room(self._etcd / "member/snap/db")
        shutil.copytree(str(self._etcd / "member"), str(copy / "member"))
        try:
            etcd_salvage.save(copy, self.folder / PROGRAMS / "etcd", snapshot, self._seconds)
        except etcd_salvage.SalvageError as error:
            raise RestorationError(str(error)) from error
        shutil.rmtree(str(copy))
        self.end_act("salvage", sha256=restored_files.sha256(snapshot))
        return True

    # -- place -------------------------------------------------------------------------------

    def place(self, member, sha256):
        """Put the restored data in place; return where the old data went, or an empty string.

        Args:
            member: name, peer URL, initial cluster and token, as words.
            sha256: of the snapshot that lies in the folder.

        Raises:
            RestorationError: the snapshot is another one, etcd runs, or it was not restored.
        """
        mark = self.mark()
        if self.did("place"):
            return mark.get("aside", "")
        running = self._all_stopped()
        if running:
            raise RestorationError("%s runs here: its data is not touched" % running)
        data, work = self._etcd / "member", self._etcd / ("restore-" + self._key)
        self._etcd.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (mark.get("asided") and data.exists()):
            if not (work / "member").is_dir() or not mark.get("restored"):
                self._restore(work, member, sha256)
            aside = self._move_aside(data)
            (work / "member").rename(data)
        else:
            aside = mark.get("aside", "")
        if work.exists():
            work.rmdir()
        self.end_act("place", member=dict(member))
        return aside

    def _restore(self, work, member, sha256):
        snapshot = self.folder / SNAPSHOT
        found, sha256 = restored_files.sha256(snapshot), sha256 or self.mark().get("sha256", "")
        if found != sha256:
            raise RestorationError("%s has the sha256 %s, expected %s" % (snapshot, found, sha256))
        self._need_room(snapshot)
        if work.exists():
            # Named by us, and written by nobody but the program below, which was killed.
            shutil.rmtree(str(work))
        restorer = self._programs()["restorer"]
        argv = [
            *(str(restorer), "snapshot", "restore", str(snapshot)),
            *("--name", member["name"], "--data-dir", str(work)),
            *("--initial-cluster", member["cluster"]),
            *("--initial-cluster-token", member["token"]),
            *("--initial-advertise-peer-urls", member["peer"]),
        ]
        environment = {"ETCDCTL_API": "3", "PATH": appliance_programs.SEARCH_PATH}
        try:
            rc, out, err = appliance_programs.output(
                argv, self._seconds, directory=str(self.folder), environment=environment
            )
        except appliance_programs.ProgramError as error:
            raise RestorationError("the snapshot was not restored: %s" % error) from error
        if rc != 0 or not (work / "member").is_dir():
            last = (err or out).decode("utf-8", "replace").strip()[-300:]
            raise RestorationError("the snapshot was not restored: %s" % last)
        self._write(self.mark(), restored=True)

    def _programs(self):
        text = (self.folder / STOPPED / "etcd.yaml").read_text()
        image = IMAGE.search(text)
        if image is None:
            raise RestorationError("the manifest of etcd names no image")
        try:
            return etcd_image_programs.extract(image.group(1), self.folder / PROGRAMS)
        except etcd_image_programs.ImageError as error:
            raise RestorationError(str(error)) from error

    def _need_room(self, snapshot):
        needed = snapshot.stat().st_size * 11 // 10 + EXTRA_BYTES
        disk = os.statvfs(str(self._etcd))
        free = disk.f_bavail * disk.f_frsize
        if free < needed:
            raise RestorationError(
                "%s has %d MB free and the restored data needs %d MB; free disk space, then run "
                "again" % (self._etcd, free // MB, -(-needed // MB))
            )

    def _move_aside(self, data):
        """Move the old data aside, on its own file system; return where it is."""
        mark = self.mark()
        if mark.get("asided"):
            return mark.get("aside", "")
        beside = self._etcd.with_name("%s.before-%s" % (self._etcd.name, self._key))
        if self._etcd.stat().st_dev != self._etcd.parent.stat().st_dev:
            beside = self._etcd / ("before-" + self._key)
        if data.exists():
            beside.mkdir(mode=0o700, exist_ok=True)
            data.rename(beside / "member")
        aside = str(beside) if (beside / "member").exists() else ""
        self._write(mark, asided=True, aside=aside)
        return aside

    # -- start -------------------------------------------------------------------------------

    def start(self, content=None, await_api=True):
        """Start the static pods, compare etcd, and wait until it and the API server answer.

        Args:
            content: revision, keys and digest of the snapshot, as its backup has them.
            await_api: whether the API server is waited for.

        Raises:
            RestorationError: they do not, and what to look at.
        """
        if self.did("start"):
            return False
        if not self.did("place"):
            raise RestorationError("nothing was put in place here: etcd is not started")
        stopped = self.folder / STOPPED
        for name in reversed(PODS):
            restored_files.move(stopped / (name + ".yaml"), self._manifests / (name + ".yaml"))
        # It also forgets how often they failed before, and what it watched of the API.
        self._systemctl("restart", "kubelet")
        self._wait(control_plane_answers.etcd_is_away, "not healthy: read the log of its pod")
        if content:
            self._compare(content)
        if await_api:
            self._wait(control_plane_answers.api_is_away, "not ready: read the log of its pod")
        self.end_act("start")
        return True

    def _compare(self, content):
        """Compare every key of the restored etcd, as of the snapshot's revision.

        etcd forgets old revisions every five minutes: a run that comes later compares nothing.
        """
        revision, until = int(content["revision"]), self.clock() + self._seconds
        try:
            found = appliance_etcd_trial.read_back(appliance_etcd_trial.Gateway(), revision, until)
        except appliance_etcd_trial.TrialError as error:
            if "compacted" in str(error):
                return
            raise RestorationError("the restored etcd was not compared: %s" % error) from error
        if (found.keys, found.digest) != (int(content["keys"]), content["digest"]):
            raise RestorationError(
                "the restored etcd holds %d keys with the digest %s at revision %d, expected %d "
                "and %s" % (found.keys, found.digest, revision, content["keys"], content["digest"])
            )
        self._write(self.mark(), compared=True)

    def _systemctl(self, verb, unit):
        rc, out, err = appliance_programs.run(["systemctl", verb, unit])
        if rc != 0:
            said = (err or out).strip()[-300:]
            raise RestorationError("systemctl %s %s: %s" % (verb, unit, said))

    def _wait(self, left, why):
        until = self.clock() + self._seconds
        while True:
            what = left()
            if not what:
                return
            if self.clock() >= until:
                raise RestorationError("%s: %s after %d s" % (what, why, self._seconds))
            self.sleep(0.2)

    # -- end ---------------------------------------------------------------------------------

    def end(self, others=True):
        """Remove what this restore brought here: exactly that, from its own folder."""
        mark = self.mark()
        if self.did("end"):
            return False
        if others:
            self._end_others()
        left = self.folder / STOPPED
        if left.is_dir() and any(entry.name not in HALF for entry in left.iterdir()):
            raise RestorationError("%s still holds manifests: nothing was removed" % left)
        strange = {entry.name for entry in self.folder.iterdir()} - set(OURS)
        if strange:
            raise RestorationError(
                "%s holds what no restore writes (%s): move it away, then run again"
                % (self.folder, ", ".join(sorted(strange)))
            )
        self._remove_brought()
        self._write(mark, acts=dict(mark.get("acts", {}), end=int(time.time())))
        return True

    def _remove_brought(self):
        for name in BROUGHT:
            (self.folder / name).unlink(missing_ok=True)
        if (self.folder / COPY).is_dir():
            shutil.rmtree(str(self.folder / COPY))
        names = etcd_image_programs.NAMES
        restored_files.remove(self.folder / PROGRAMS, (*names, *(name + ".new" for name in names)))
        restored_files.remove(self.folder / STOPPED, HALF)

    def _end_others(self):
        """End restores that this one took over; each of them has a snapshot here, in plain."""
        for other in sorted((self._root / RESTORES).iterdir()):
            if other != self.folder and (other / MARK).is_file():
                taken = Restoration(other.name, self._root, self._seconds)
                if not taken.did("end"):
                    taken.end(others=False)
