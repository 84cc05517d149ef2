"""Renew kubeadm's certificates on this control-plane node in time; a systemd timer starts it.

Only what is due, and only while every other API server is ready: a Lease in the cluster lets one
node at a time restart its programs. The work is that of ``cluster certificates renew``, as the same
unit. Python 3.8, standard library. What must not be here: how certificates are renewed
(``certificate_renewal``).
"""

from __future__ import annotations

import functools
import hashlib
import http.client
import json
import signal
import ssl
import subprocess
import sys
import time
from pathlib import Path

from ansible.module_utils import appliance_timer_record as records
from ansible.module_utils import certificate_renewal
from ansible.module_utils.appliance_files import write
from ansible.module_utils.appliance_job import JobError, NodeJob
from ansible.module_utils.appliance_kubectl import Kubectl, KubectlError
from ansible.module_utils.appliance_programs import run
from ansible.module_utils.appliance_timer_record import Skipped, TimerError, plain
from ansible.module_utils.certificate_renewal import Renewal, RenewalError

NAME = "certificates"
CA = Path("/etc/kubernetes/pki/ca.crt")
LEASE, NAMESPACE = "appliance-certificate-renewal", "kube-system"
# A holder restarts four programs, each with a limit of minutes. Counted by this node alone.
STALE_SECONDS = 3600
_MOST_BYTES = 1 << 12
KUBECTL_SECONDS = 90
# They change the same files or restart the same programs; their command may have been killed.
OTHERS = ("kubeadm", "kubeadm-init", "api-server")
_TIME = "%Y-%m-%dT%H:%M:%S"


def require_peers(peers, port):
    """Require that every other API server of the control plane is ready.

    Raises:
        TimerError: one is not; restarting this one's could take the API away.
    """
    for peer in peers:
        why = why_not_ready(peer["address"], port)
        if why:
            raise TimerError(
                "%s: its API server is not ready (%s), so nothing is restarted here: see "
                "appliance status" % (peer["node"], plain(why, 200))
            )


def why_not_ready(address, port):
    """Return why an API server is not ready; empty where it is."""
    try:
        context = ssl.create_default_context(cafile=str(CA))
        line = http.client.HTTPSConnection(address, port, timeout=10, context=context)
        try:
            line.request("GET", "/readyz")
            status = line.getresponse().status
        finally:
            line.close()
    except (OSError, http.client.HTTPException) as error:
        return str(error) or type(error).__name__
    return "" if status == 200 else "it answers %d" % status


def since_boot():
    """Return which boot this is, and the seconds since it; nobody sets them."""
    boot = (records.PROC / "sys/kernel/random/boot_id").read_text().strip()
    return boot, time.clock_gettime(time.CLOCK_BOOTTIME)


class Turn:
    """The Lease that lets one control-plane node at a time restart its programs.

    What another node wrote is never compared with this node's clock: they may be hours apart. A
    holder is gone when its Lease stayed as it is for an hour by this node's own count, from one
    run of the timer to a later one.

    Args:
        kubectl: of this node.
        node: this node.
        now: callable() -> seconds since 1970, for people who read the Lease.
        counted: callable() -> (boot, seconds since it).
    """

    def __init__(self, kubectl, node, now=time.time, counted=since_boot):
        self._kubectl, self._node, self._now, self._counted = kubectl, node, now, counted

    def take(self):
        """Take it.

        Raises:
            Skipped: another node has it.
            KubectlError: the API does not answer.
        """
        found = self._kubectl.get("--namespace=" + NAMESPACE, "lease", LEASE)
        if found is not None:
            holder = (found.get("spec") or {}).get("holderIdentity") or ""
            if holder not in ("", self._node) and not self._is_gone(found):
                raise Skipped("%s renews its certificates at this moment" % plain(holder, 100))
        self._put(found, self._node)

    def _is_gone(self, lease):
        """Return whether this very Lease was seen long ago; write down when it was seen first."""
        path = records.HOME / "lease-seen.json"
        boot, seconds = self._counted()
        version = str((lease.get("metadata") or {}).get("resourceVersion"))
        try:
            with path.open("rb") as stream:
                seen = json.loads(stream.read(_MOST_BYTES))
            first = float(seen["seconds"])
            same = (seen["version"], seen["boot"]) == (version, boot) and first <= seconds
        except (OSError, ValueError, LookupError, TypeError):
            same = False
        if not same:
            first = seconds
            kept = {"version": version, "boot": boot, "seconds": seconds}
            write(path, json.dumps(kept), 0o600)
        return seconds - first >= STALE_SECONDS

    def give_back(self):
        """Give it back; nobody waits for one that is old."""
        found = self._kubectl.get("--namespace=" + NAMESPACE, "lease", LEASE)
        if found is not None and (found.get("spec") or {}).get("holderIdentity") == self._node:
            self._put(found, "")

    def _put(self, found, holder):
        stamp = time.strftime(_TIME, time.gmtime(self._now())) + ".000000Z"
        meta = {"name": LEASE, "namespace": NAMESPACE}
        if found is not None:
            # Somebody else's change in between is refused by the API.
            meta["resourceVersion"] = found["metadata"]["resourceVersion"]
        spec = {"renewTime": stamp, "leaseDurationSeconds": STALE_SECONDS}
        if holder:
            spec["holderIdentity"] = holder
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": meta,
            "spec": spec,
        }
        path = records.HOME / "lease.json"
        write(path, json.dumps(lease), 0o600)
        verb = "create" if found is None else "replace"
        try:
            self._kubectl.call([verb, "--filename=%s" % path])
        except KubectlError as error:
            words = str(error)
            if "AlreadyExists" in words or "Conflict" in words or "already exists" in words:
                raise Skipped("another node took its turn at the same moment") from error
            raise


def end_of(path):
    """Return when the certificate in a kubeconfig ends, as ISO 8601 in UTC; empty: unknown."""
    try:
        text = certificate_renewal.certificate_of(path)
    except (OSError, ValueError, RenewalError):
        return ""
    argv = ["openssl", "x509", "-noout", "-enddate"]
    told = run(argv, seconds=20, data=text)[1].strip().partition("=")[2]
    try:
        found = time.strptime(told, "%b %d %H:%M:%S %Y GMT")
    except ValueError:
        return ""
    return time.strftime(_TIME + "+00:00", found)


def carry_out(request):
    """Renew as the unit of ``cluster certificates renew``; return its result.

    Raises:
        TimerError: it failed.
    """
    folder = certificate_renewal.FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    text = json.dumps(request, sort_keys=True)
    path = folder / ("request-%s.json" % hashlib.sha256(text.encode()).hexdigest()[:12])
    write(path, text, 0o600)
    program = Path(certificate_renewal.__file__)
    job = NodeJob("certificates", run, python=sys.executable)
    seconds = len(certificate_renewal.PROGRAMS) * request["deadline_seconds"] + 180
    result, _ = job.run([sys.executable, "-I", str(program), str(path)], deadline_seconds=seconds)
    if result["rc"] != 0:
        raise TimerError(result["stderr"].strip() or "it ended with %d" % result["rc"])
    return json.loads(result["stdout"])


def at_work(name):
    """Return whether a unit of ours runs, or may run."""
    return NodeJob(name, run).is_running()


def require_no_unit():
    """Require that nothing else changes the control plane of this node.

    Raises:
        Skipped: something does.
    """
    for name in OTHERS:
        if at_work(name):
            raise Skipped("appliance-%s.service is at work on this node" % name)


def renew(want, kubectl):
    """Renew what is due; return what is told of it.

    Raises:
        TimerError, RenewalError, KubectlError, JobError: it was not done.
        Skipped: another node is at work.
    """
    request = {
        "within_days": want["within_days"],
        "await_ready": True,
        "api_port": want["api_port"],
        "deadline_seconds": want["ready_seconds"],
    }
    if not Renewal(request).is_due():
        before = (records.record(NAME).get("success") or {}).get("copies_end")
        return dict({"renewed": [], "restarted": []}, **({"copies_end": before} if before else {}))
    turn = Turn(kubectl, want["node"])
    turn.take()
    try:
        # After the turn was taken: the node before may have just restarted its own, and a command
        # may have begun since.
        require_peers(want["peers"], want["api_port"])
        records.require_no_command()
        require_no_unit()
        # Copies of admin.conf that operators have end then, whatever is renewed here.
        ends = end_of(certificate_renewal.ETC / "admin.conf")
        done = carry_out(request)
        if not kubectl.is_ready():
            raise TimerError("the API of this node is not ready after the renewal")
    finally:
        # The unit goes on when this program is ended: the turn is its own until then.
        if not at_work("certificates"):
            turn.give_back()
    told = {key: done[key] for key in ("renewed", "restarted", "kept")}
    return dict(told, copies_end=ends) if ends else told


def work():
    """Do one run by the settings of this node."""
    records.require_no_command()
    records.require_no_restore()
    want = records.settings(NAME)
    kubectl = Kubectl(functools.partial(run, seconds=KUBECTL_SECONDS))
    try:
        return renew(want, kubectl)
    except (KubectlError, JobError, RenewalError, subprocess.SubprocessError) as error:
        raise TimerError(
            "%s; renew from the control host: appliance cluster certificates renew" % plain(error)
        ) from error
    except (LookupError, TypeError, ValueError) as error:
        raise TimerError("%s: %s" % (type(error).__name__, plain(error))) from error


def ended(*_):
    """Leave by an exception, so that the turn is given back."""
    raise SystemExit(143)


def main():
    """Renew what is due, and write down how it ended."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, ended)
    return records.carry_out(NAME, work)


if __name__ == "__main__":
    raise SystemExit(main())
