"""What this product left on a machine: what a reset takes away, what stays, which data.

The role's module uses it, and the tool runs it over SSH with the two modules that it imports, for
the forecast and as the evidence of the end. So it imports nothing else of ours.

Python 3.8, standard library. What must not be here: any change.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from ansible.module_utils.bare_files import block_of, is_one_of, is_there, names_in, small_text
from ansible.module_utils.bare_places import (
    DRIVER,
    ETCD_ASIDE,
    EXPORTS,
    FILES,
    OF_PACKAGES,
    PLUGIN_DIR,
    PLUGINS,
    RUNTIMES,
    SERVED,
    TIMED_BACKUPS,
    VITAL,
)

HOME, ETC = "var/lib/appliance", "etc/appliance"
CA = ETC + "/ca.crt"
RECORD = HOME + "/packages.json"
# Documents and lock of the site: they go last, on every control-plane node.
LAST = ("archive", "lock")
SHARED = "shared storage: volumes, Run:ai's database"
ASIDE = "etcd's data before a restore"
# In HOME; each holds what no install makes again.
DATA = (("etcd-snapshots", "snapshots of etcd"), ("backup", "backups"), ("backups", "backups"))
# As appliance_timer_archive names its files.
TIMED_FILE = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}-[0-9]{8}T[0-9]{6}Z\.backup(\.json)?(\.partial)?\Z"
)
DUMPS = HOME + "/runai"
DUMP = "before-*"
EXPORT_MARK, EXPORT_MARKER = HOME + "/nfs-export.json", "appliance-export.json"
ID = re.compile(r"[0-9a-f]{32}\Z")
SWAP = "# appliance: no swap: "
COPIES = ("fstab.appliance-", "hosts.appliance-")
GUARD = re.compile(r"\A[a-z0-9][a-z0-9+.-]*\Z")
SECONDS = 60


def run(argv):
    """Return (rc, stdout, stderr) of a program that ends within a minute."""
    try:
        done = subprocess.run(
            argv, capture_output=True, timeout=SECONDS, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 127, "", str(error)
    return (
        done.returncode,
        done.stdout.decode("utf-8", "replace"),
        done.stderr.decode("utf-8", "replace"),
    )


class Survey:
    """What is on this machine.

    Args:
        root: the folder used as /.
        run: callable(argv) -> (rc, stdout, stderr).
        which: finds a program.
        export: the exported folder of shared storage that this node serves; empty for none.
    """

    def __init__(self, root="/", run=run, which=shutil.which, export=""):
        self.root, self.run, self._which = Path(root), run, which
        self._export = export.lstrip("/")
        self.record, self.fault = self._recorded()
        self.installed = self._installed()
        why = self.others_containers()
        there = [name for name in RUNTIMES if name in self.installed]
        self.blocked = dict.fromkeys(there, why) if why else {}
        self.blocked.update(self._serving_others())

    def _recorded(self):
        text = small_text(self.root / RECORD)
        if text is None:
            return {}, ""
        try:
            found = json.loads(text)
            lists = [found.get(key, []) for key in ("brought", "instead", "held", "replaced")]
            fits = all(isinstance(n, str) and GUARD.match(n) for one in lists for n in one)
        except (ValueError, AttributeError, TypeError, RecursionError):
            fits = False
        return (found, "") if fits else ({}, "/%s is not readable" % RECORD)

    def _installed(self):
        rc, out, err = self.run(["dpkg-query", "-W", "-f", "${Package} ${db:Status-Abbrev}\\n"])
        rows = [line.split() for line in out.splitlines()]
        if rc != 0 or not rows:
            # An empty list would make every package one that is purged already.
            raise OSError("dpkg does not list the packages: %s" % (err.strip()[-300:] or rc))
        return {row[0]: row[1] for row in rows if len(row) == 2 and row[1][1:2] not in ("n", "")}

    def brought(self):
        """Return the packages of ours that are to go: no driver, no replacement of others."""
        names = set(self.record.get("brought", ())) - set(self.record.get("instead", ()))
        return sorted(n for n in names if not is_one_of(n, (*DRIVER, *VITAL)))

    def packages(self):
        """Return those that are still installed, or left their configuration."""
        found = [n for n in self.brought() if n in self.installed]
        if not self.blocked:
            return found
        spared = {"runc"} if set(self.blocked) & set(RUNTIMES) else set()
        return [n for n in found if n not in self.blocked and n not in spared]

    def _serving_others(self):
        """Return {package: why} of those that serve what others configured."""
        found = {}
        for name, places in SERVED.items():
            theirs = [
                "/%s/%s" % (folder, one)
                for folder, end, ours in places
                for one in names_in(self.root / folder)
                if one.endswith(end) and one not in ours
            ]
            if name == "nfs-kernel-server" and self._has_exports():
                theirs.append("/" + EXPORTS)
            if theirs:
                why = "it serves what others configured in %s" % theirs[0]
                # nginx is a package without files, and its program in another one.
                parts = [n for n in self.installed if n == name or n.startswith(name + "-")]
                found.update(dict.fromkeys(parts, why))
        brought = set(self.record.get("brought", ()))
        return {name: why for name, why in found.items() if name in brought}

    def _has_exports(self):
        lines = (small_text(self.root / EXPORTS) or "").splitlines()
        return any(line.strip() and not line.lstrip().startswith("#") for line in lines)

    def others_containers(self):
        """Return which containers or volumes are no pod's, in words; empty where there are none."""
        for place in self._docker_roots():
            data = self.root / place
            found = [n for n in names_in(data / "containers") if self._is_of_others(data, n)]
            if found:
                return "%d containers of others are in /%s/containers" % (len(found), place)
            volumes = [n for n in names_in(data / "volumes") if (data / "volumes" / n).is_dir()]
            if volumes:
                return "%d volumes are in /%s/volumes" % (len(volumes), place)
        # Of a member they are pods, which its reset ends; those of Docker are judged above.
        spared = {"moby", "k8s.io"} if names_in(self.root / "etc/kubernetes") else {"moby"}
        tasks = self.root / "run/containerd/io.containerd.runtime.v2.task"
        for space in names_in(tasks):
            if space not in spared and names_in(tasks / space):
                return "containers of containerd's namespace %s run" % space[:40]
        return ""

    def _docker_roots(self):
        """Return the folders in which Docker keeps containers: the usual one, and a chosen one."""
        try:
            chosen = json.loads(small_text(self.root / "etc/docker/daemon.json") or "{}")
            found = [chosen[key] for key in ("data-root", "graph") if key in chosen]
        except (ValueError, TypeError, RecursionError):
            found = []
        chosen = [n.strip("/") for n in found if isinstance(n, str) and n.startswith("/")]
        return list(dict.fromkeys(["var/lib/docker", *chosen]))

    def _is_of_others(self, data, name):
        """Return whether a container of Docker's is not the kubelet's; in doubt it is of others."""
        folder = data / "containers" / name
        if not folder.is_dir():
            return False
        try:
            labels = json.loads(small_text(folder / "config.v2.json") or "")["Config"]["Labels"]
            return "io.kubernetes.pod.uid" not in labels
        except (ValueError, KeyError, TypeError, RecursionError):
            return True

    def of_packages(self):
        """Return paths of packages that are purged already."""
        stays = set(self.installed) | set(self.blocked)
        kept = {path for name in stays for path in OF_PACKAGES.get(name, ())}
        found = [
            path
            for name in self.brought()
            if name not in stays
            for path in OF_PACKAGES.get(name, ())
            if path not in kept
            and self.is_filled(path)
            and not any(other.startswith(path + "/") for other in kept)
        ]
        return [path for path in dict.fromkeys(found) if not self._is_of_a_package(path)]

    def _is_of_a_package(self, path):
        """Return whether a package that is not purged has something at a path, or below it."""
        rc, _, err = self.run(["dpkg-query", "-S", "/" + path])
        if rc not in (0, 1):
            raise OSError("dpkg does not say whose /%s is: %s" % (path, err.strip()[-300:] or rc))
        return rc == 0

    def is_filled(self, name):
        """Return whether there is a file, or a folder with something in it."""
        path = self.root / name
        if path.is_dir() and not path.is_symlink():
            return bool(names_in(path)) or not os.path.ismount(str(path))
        return is_there(path)

    def files(self):
        """Return the files of ours that are there, and programs that no package has.

        Without the site's CA only a name that is ours shows whose it is: kubectl may be of others.
        """
        found = [*FILES, *("%s/%s" % (PLUGIN_DIR, name) for name in PLUGINS)]
        proved = bool(self.ca_sha256())
        return [n for n in found if (proved or "appliance" in n) and is_there(self.root / n)]

    def lines(self):
        """Return the files in which lines of ours are."""
        hosts = small_text(self.root / "etc/hosts") or ""
        fstab = small_text(self.root / "etc/fstab") or ""
        block = block_of(hosts.splitlines())
        swap = any(line.startswith(SWAP) for line in fstab.splitlines())
        return [n for n, found in (("etc/hosts", block), ("etc/fstab", swap)) if found]

    def data(self):
        """Return [(path, what)] of what no install makes again, as far as it is there."""
        found = [
            ("%s/%s" % (HOME, name), what)
            for name, what in DATA
            if names_in(self.root / HOME / name)
        ]
        found += [(path, "backups by a timer") for path in self._timed_backups()]
        dumps = [n for n in names_in(self.root / DUMPS) if fnmatch.fnmatchcase(n, DUMP)]
        found += [("%s/%s" % (DUMPS, n), "dump of Run:ai's database") for n in dumps]
        folder, pattern = ETCD_ASIDE
        aside = fnmatch.filter(names_in(self.root / folder), pattern)
        aside = [n for n in aside if names_in(self.root / folder / n / "member")]
        found += [("%s/%s" % (folder, n), ASIDE) for n in aside]
        if self._export and self.is_our_export():
            found.append((self._export, SHARED))
        return found

    def _timed_backups(self):
        """Return the folder of a timer's backups; its files, where others put something there."""
        names = names_in(self.root / TIMED_BACKUPS)
        ours = ["%s/%s" % (TIMED_BACKUPS, n) for n in names if TIMED_FILE.match(n)]
        return [TIMED_BACKUPS] if ours and len(ours) == len(names) else ours

    def newest_backup(self):
        """Return [path, epoch seconds] of the newest backup, snapshot or dump; None for none."""
        found = []
        for name, what in self.data():
            folder = self.root / name
            is_one = what not in (SHARED, ASIDE)
            inside = [name + "/" + n for n in names_in(folder)] if is_one else []
            inside += [name] if is_one and folder.is_file() else []
            found += [(int((self.root / n).lstat().st_mtime), "/" + n) for n in inside]
        return [max(found)[1], max(0, max(found)[0])] if found else None

    def is_our_export(self):
        """Return whether the exported folder has the id that this node wrote down."""
        folder = self.root / self._export
        if folder.is_symlink() or not folder.is_dir():
            return False
        ids = []
        for path in (self.root / EXPORT_MARK, folder / EXPORT_MARKER):
            try:
                found = json.loads(small_text(path) or "")
                ids.append(found["id"])
            except (ValueError, KeyError, TypeError, RecursionError):
                return False
        return ids[0] == ids[1] and isinstance(ids[0], str) and bool(ID.match(ids[0]))

    def own(self):
        """Return what is in our two folders, but for data, documents, lock, and the evidence."""
        spared = {*(HOME + "/" + name for name in LAST), RECORD, CA}
        data = [path for path, _ in self.data()]
        if self._export in data:
            # A folder that is exported again has to be the same.
            spared.add(EXPORT_MARK)
        found = []
        for folder in (HOME, ETC):
            for name in names_in(self.root / folder):
                path = "%s/%s" % (folder, name)
                if path not in spared and path not in data:
                    found += self._beside(path, data)
        return found

    def _beside(self, path, data):
        inside = [one for one in data if one.startswith(path + "/")]
        if not inside:
            return [path]
        return [
            "%s/%s" % (path, name)
            for name in names_in(self.root / path)
            if "%s/%s" % (path, name) not in inside
        ]

    def evidence(self):
        """Return the record of packages and the CA: they go last, and stay beside what stays."""
        return (
            []
            if self.blocked or self.data()
            else [n for n in (RECORD, CA) if is_there(self.root / n)]
        )

    def last(self):
        """Return the documents and the lock of the site, where they are."""
        found = ["%s/%s" % (HOME, name) for name in LAST]
        return [name for name in found if is_there(self.root / name)]

    def ca_sha256(self):
        """Return the digest of the site's CA on this machine, as PEM; empty without one."""
        text = small_text(self.root / CA)
        return hashlib.sha256("".join(text.split()).encode()).hexdigest() if text else ""

    def stays(self):
        """Return [(what, why)] of what a reset leaves."""
        found = [(n, why) for n, why in sorted(self.blocked.items()) if n in self.installed]
        brought, instead = set(self.record.get("brought", ())), self.record.get("instead", ())
        there = brought & set(self.installed)
        for patterns, reason in (
            (DRIVER, "the GPU driver stays, as after node remove"),
            (VITAL, "the machine boots or is reached by it"),
        ):
            named = sorted(n for n in there if is_one_of(n, patterns))
            if named:
                found.append((", ".join(named[:4]), reason))
        gone = ", ".join(self.record.get("replaced", ())) or "another package"
        place = "it took the place of %s" % gone
        found += [(name, place) for name in instead if name in self.installed]
        if not self.record and is_there(self.root / CA):
            why = self.fault or "an earlier version installed them, and recorded none"
            found.append(("packages", why))
        users = ("usr/local/bin/runai", "etc/bash_completion.d/runai")
        there = [name for name in users if is_there(self.root / name)]
        found += [("/" + name, "Run:ai's program for users") for name in there]
        copies = [n for n in names_in(self.root / "etc") if n.startswith(COPIES)]
        return found + [("/etc/" + name, "a copy of before the install") for name in copies]

    def document(self):
        """Return all of it as plain data."""
        packages = self.packages()
        return {
            "format": 1,
            "packages": packages,
            "held": self.held(),
            "files": ["/" + n for n in [*self.files(), *self.lines(), *self.of_packages()]],
            "own": ["/" + n for n in [*self.own(), *self.evidence()]],
            "last": ["/" + n for n in self.last()],
            "data": [["/" + path, what] for path, what in self.data()],
            "stays": [list(one) for one in self.stays()],
            "newest_backup": self.newest_backup(),
            "ca_sha256": self.ca_sha256(),
        }

    def held(self):
        """Return the packages on hold by us."""
        ours = self.record.get("held", ())
        return sorted(n for n in ours if self.installed.get(n, "").startswith("h"))


def main():
    """Print one JSON object: what is here; the word is the folder of shared storage, if any."""
    try:
        json.dump(Survey(export=sys.argv[1] if len(sys.argv) > 1 else "").document(), sys.stdout)
    except OSError as error:
        sys.stderr.write("%s\n" % error)
        return 1
    return 0
