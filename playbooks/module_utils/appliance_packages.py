"""Install exact package versions on a node from a single apt source.

apt gets its own lists and cache folders and one source. It ignores the site's own sources, so an
unreachable or newer archive has no effect. The run itself is a :mod:`appliance_job`.

Python 3.8, standard library. What must not be here: which packages a role wants.
"""

from __future__ import annotations

import fcntl
import fnmatch
import os
import re
import struct
import time
from pathlib import Path

from ansible.module_utils.appliance_job import explain

STATE_DIR = Path("/var/lib/appliance/apt")
POLICY = Path("/usr/sbin/policy-rc.d")
POLICY_MARK = "# appliance: no service starts while packages are unpacked"
DPKG_DIR = Path("/var/lib/dpkg")
INDEX_SUFFIX = ".sha256"  # Of the file with the only package index accepted for a source list.
PLANNED = "planned"  # In STATE_DIR: what our runs were about to install (appliance_brought).
# Reads a list of apt, compressed or not.
APT_HELPER = "/usr/lib/apt/apt-helper"
_SHA256 = re.compile(r"^[0-9a-f]{64}$")
_FLOCK = "hhqqi4x"
_HALF_STATES = frozenset("UFHWt")
_QUERY = "${Package}\\t${Version}\\t${db:Status-Abbrev}\\n"

# $1 policy file or '', $2 apt configuration, $3 " names " that may be removed, $4 folder of apt's
# lists, $5 sha256 of the bundle's package index, $6 the source, the rest: arguments of apt-get. An
# index that is not the bundle's, or a removal beyond $3, stops the run before anything is
# unpacked; so does another version of a package that UPGRADES, where it is set, does not name. apt
# then compares each package with the index.
SCRIPT = r"""
set -eu
policy=$1; configuration=$2; replaces=$3; lists=$4; index=$5; source=$6; shift 6
trap 'exit 143' TERM INT HUP
if [ -n "$policy" ] && [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\n%s\nexit 101\n' '@MARK@' > "$policy.new"
    chmod 755 "$policy.new"
    mv "$policy.new" "$policy"
fi
dpkg --force-confdef --force-confold --configure -a
if [ $# -gt 0 ]; then
    export APT_CONFIG="$configuration"
    apt-get -q update || {
        rc=$?
        echo "$source did not give the bundle's package index; nothing was installed" >&2
        exit $rc
    }
    number=0
    for list in "$lists"/*Packages*; do
        [ -e "$list" ] || continue
        number=$((number + 1))
        seen=$(@HELPER@ cat-file "$list" | sha256sum)
        [ "${seen%% *}" = "$index" ] || {
            echo "$source serves a package index that is not the bundle's: sha256 $seen," \
                "not $index; nothing was installed" >&2
            exit 4
        }
    done
    [ "$number" -eq 1 ] || {
        echo "$source gave $number package indexes, not one; nothing was installed" >&2
        exit 4
    }
    state=${lists%/*}
    apt-get -s "$@" > "$state/simulated" || true
    for name in $(sed -n 's/^Remv \([^ :]*\).*/\1/p' "$state/simulated"); do
        case "$replaces" in
            *" $name "*) ;;
            *) echo "apt would remove $name for: $*" >&2; exit 3 ;;
        esac
    done
    if [ -n "${UPGRADES:-}" ]; then
        for name in $(sed -n 's/^Inst \([^ :]*\)[^ ]* \[.*/\1/p' "$state/simulated"); do
            case "$UPGRADES" in
                *" $name "*) ;;
                *) echo "apt would also change $name, which is to stay as it is" >&2; exit 3 ;;
            esac
        done
    fi
    sed -n 's/^Inst \([^ :]*\).*/\1/p' "$state/simulated" >> "$state/@PLANNED@"
    sync "$state/@PLANNED@"
    apt-get -q "$@"
fi
"""
for _name, _value in (("@MARK@", POLICY_MARK), ("@HELPER@", APT_HELPER), ("@PLANNED@", PLANNED)):
    SCRIPT = SCRIPT.replace(_name, _value)

ENVIRONMENT = {
    "DEBIAN_FRONTEND": "noninteractive",
    "DEBIAN_PRIORITY": "critical",
    "NEEDRESTART_SUSPEND": "1",
    "NEEDRESTART_MODE": "l",
    "APT_LISTCHANGES_FRONTEND": "none",
    "UCF_FORCE_CONFFOLD": "1",
}


class PackagesError(Exception):
    """The packages cannot be installed; the text has the reason and the next action."""


class Observed:
    """The state of dpkg.

    Attributes:
        versions: name -> version of completely installed packages.
        half: names of packages that an interrupted run left half installed.
        held: names on hold.
    """

    def __init__(self, versions, half, held):
        self.versions = versions
        self.half = half
        self.held = held

    @classmethod
    def parse(cls, text):
        """Parse the output of the query."""
        versions, half, held = {}, [], set()
        for line in text.splitlines():
            name, version, status = [*line.split("\t"), "", ""][:3]
            wanted, state = status[:1], status[1:2]
            if wanted == "h":
                held.add(name)
            if state == "i" and status[2:3].strip() == "":
                versions[name] = version
            elif state in _HALF_STATES or status[2:3].strip():
                half.append(name)
        return cls(versions, sorted(half), held)


class PlannedRun:
    """The differences that the module reports."""

    def __init__(self, observed, wanted, hold_patterns, interrupted):
        self.missing = {
            name: version
            for name, version in sorted(wanted.items())
            if observed.versions.get(name) != version
        }
        self.half = observed.half
        self.interrupted = bool(interrupted or observed.half)
        self.to_hold = sorted(
            name
            for name in {*observed.versions, *wanted} - observed.held
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in hold_patterns)
        )

    @property
    def needs_dpkg(self):
        """Whether dpkg has to run."""
        return bool(self.missing or self.interrupted)


def observe(run):
    """Query dpkg for the installed packages."""
    rc, out, err = run(["dpkg-query", "-W", "-f", _QUERY])
    if rc not in (0, 1):
        raise PackagesError("dpkg's database cannot be read: %s" % err.strip())
    return Observed.parse(out)


def updates_pending(dpkg_dir=DPKG_DIR):
    """Return whether dpkg reports that it was interrupted."""
    try:
        return any(re.match(r"^\d+$", entry.name) for entry in (dpkg_dir / "updates").iterdir())
    except OSError:
        return False


def lock_holder(paths):
    """Return "pid N (command)" of the process that holds one of the locks, or None."""
    for path in paths:
        try:
            handle = os.open(str(path), os.O_RDWR)
        except OSError:
            continue
        try:
            asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            answer = fcntl.fcntl(handle, fcntl.F_GETLK, asked)
        finally:
            os.close(handle)
        kind, _, _, _, pid = struct.unpack(_FLOCK, answer)
        if kind != fcntl.F_UNLCK:
            return "pid %d (%s)" % (pid, _command_of(pid))
    return None


def _command_of(pid):
    try:
        raw = Path("/proc/%d/cmdline" % pid).read_bytes()
    except OSError:
        return "gone"
    return raw.replace(b"\0", b" ").decode("utf-8", "replace").strip()[:100] or "a kernel thread"


# In dpkg's words of every version: "is locked" up to 1.19 (Ubuntu 20.04), then "was locked".
LOCKED = "locked by another process"
WAIT_OR_STOP = (
    "wait for it (or stop apt-daily.service and unattended-upgrades.service) and run again"
)


def wait_for_lock(seconds, holder=None, clock=time.monotonic, sleep=time.sleep):
    """Wait until dpkg's locks are free.

    Raises:
        PackagesError: a lock is still held after that many seconds; names its holder.
    """
    paths = [DPKG_DIR / "lock-frontend", DPKG_DIR / "lock"]
    holder = holder or (lambda: lock_holder(paths))
    until = clock() + seconds
    while True:
        who = holder()
        if not who:
            return
        if clock() >= until:
            raise PackagesError(
                "%s has held dpkg's lock for more than %d s; %s" % (who, seconds, WAIT_OR_STOP)
            )
        sleep(1)


def hold(run, names, seconds, clock=time.monotonic, sleep=time.sleep):
    """Put packages on hold; apt-mark itself does not wait for dpkg's lock.

    A run that was killed may still end its own work on this node, and take the lock at any time.

    Raises:
        PackagesError: the lock is still held after that many seconds, or apt-mark failed.
    """
    until = clock() + seconds
    while True:
        rc, out, err = run(["apt-mark", "hold", *names])
        if rc == 0:
            return
        fault = "apt-mark hold failed: %s" % " ".join((err or out).split())
        if LOCKED not in fault:
            raise PackagesError(fault)
        if clock() >= until:
            raise PackagesError("%s; %s" % (fault, WAIT_OR_STOP))
        sleep(1)


def apt_configuration(source_list, state_dir, lock_seconds):
    """Return the apt configuration of our runs: one source, own folders.

    APT_CONFIG with ``#clear`` and Dir::Etc::parts exclude all files of the site's apt.conf.d
    except the one with our certificate authority. DNS lookups of SRV records are off: without a
    DNS server, apt would wait five seconds for each.
    """
    lines = {
        "Dir::Etc::main": "/dev/null",
        "Dir::Etc::parts": str(state_dir / "conf.d"),
        "Dir::Etc::sourcelist": source_list,
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "Dir::State::lists": str(state_dir / "lists"),
        "Dir::Cache": str(state_dir / "cache"),
        "Acquire::http::Proxy": "DIRECT",
        "Acquire::https::Proxy": "DIRECT",
        "Acquire::EnableSrvRecords": "false",
        "Acquire::Languages": "none",
        "Acquire::GzipIndexes": "false",
        "Acquire::Retries": "3",
        "APT::Sandbox::User": "root",
        "APT::Install-Recommends": "false",
        "APT::Get::Assume-Yes": "true",
        "APT::Update::Error-Mode": "any",
        "APT::Keep-Downloaded-Packages": "false",
        "DPkg::Lock::Timeout": str(lock_seconds),
        "Dpkg::Use-Pty": "false",
    }
    text = "".join('%s "%s";\n' % item for item in lines.items())
    return text + 'DPkg::Options { "--force-confdef"; "--force-confold"; };\n'


def write_configuration(source_list, lock_seconds, state_dir=STATE_DIR):
    """Write the configuration, its folders and the script; return the configuration's path."""
    conf = Path("/etc/apt/apt.conf.d/90appliance")
    for part in ("conf.d", "lists/partial", "cache/archives/partial"):
        (state_dir / part).mkdir(parents=True, exist_ok=True)
    link = state_dir / "conf.d" / "90appliance"
    if not link.is_symlink():
        link.symlink_to(conf)
    (state_dir / "install.sh").write_text(SCRIPT)
    path = state_dir / "apt.conf"
    path.write_text(apt_configuration(source_list, state_dir, lock_seconds))
    return str(path)


def source_of(source_list):
    """Return (address of the source, sha256 of its only accepted index)."""
    try:
        lines = Path(source_list).read_text().splitlines()
        index = Path(str(source_list) + INDEX_SUFFIX).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise PackagesError(
            "the package source is not complete: %s; run the step 'artifacts' first" % error
        ) from error
    addresses = [line.split("] ")[-1].split()[0] for line in lines if line.startswith("deb ")]
    if len(addresses) != 1 or not _SHA256.match(index):
        raise PackagesError(
            "%s has %d sources and %s%s is %s; run the step 'artifacts' first"
            % (
                source_list,
                len(addresses),
                source_list,
                INDEX_SUFFIX,
                "a digest" if _SHA256.match(index) else "no digest",
            )
        )
    return addresses[0], index


def job_command(planned, configuration, want):
    """Return the argv of the transient unit."""
    policy = "" if want["start_services"] else str(POLICY)
    replaces = " %s " % " ".join(want["replaces"])
    lists = str(STATE_DIR / "lists")
    address, index = source_of(want["source_list"])
    command = ["/bin/sh", str(STATE_DIR / "install.sh"), policy, configuration, replaces]
    command += [lists, index, address]
    if planned.missing:
        command += ["install", "--allow-change-held-packages"]
        command += ["--allow-downgrades"] if want["allow_downgrade"] else []
        command += ["%s=%s" % item for item in sorted(planned.missing.items())]
    elif planned.half:
        command += ["install", "--fix-broken"]
    return command


def run_apt(job, command, environment, seconds, look):
    """Run apt in its unit; return what differs on the node afterwards, as ``look()`` sees it.

    Raises:
        PackagesError: apt failed, or something still differs.
    """
    result, _ = job.run(command, environment, deadline_seconds=seconds)
    if result["rc"] != 0:
        raise PackagesError(explain(result) + unmet(result["stdout"]))
    left = look()
    if left.needs_dpkg:
        raise PackagesError(
            "apt succeeded, but these packages still differ: %s"
            % ", ".join(sorted(set(left.missing) | set(left.half)))
        )
    return left


def carry_out(module, run, planned, install):
    """Install what differs and hold what is to be held; return the result of the module.

    Args:
        module: with lock_wait_seconds; in check mode nothing changes.
        run: callable(argv) -> (rc, stdout, stderr).
        planned: a :class:`PlannedRun`.
        install: callable() -> what differs afterwards.
    """
    changed = planned.needs_dpkg or bool(planned.to_hold)
    if changed and not module.check_mode:
        left = install() if planned.needs_dpkg else planned
        if left.to_hold:
            hold(run, left.to_hold, module.params["lock_wait_seconds"])
    return {
        "changed": changed,
        "installed": planned.missing,
        "healed": planned.half,
        "held": planned.to_hold,
    }


def unmet(output):
    """Return apt's unmet dependencies as the end of a sentence, or nothing."""
    lines = output.partition("unmet dependencies:")[2].splitlines()[1:]
    told = [" ".join(line.split()) for line in lines if line.startswith(" ")]
    return "; apt could not meet: " + "; ".join(told[:4]) if told else ""


def is_stale_policy(policy=POLICY):
    """Return whether our policy file is left over from a power cut."""
    try:
        return POLICY_MARK in policy.read_text()
    except (OSError, UnicodeDecodeError):
        return False


def remove_stale_policy(policy=POLICY):
    """Remove our policy file after a power cut; keep one that is not ours."""
    if is_stale_policy(policy):
        policy.unlink()
