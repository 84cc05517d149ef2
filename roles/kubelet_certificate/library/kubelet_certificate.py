#!/usr/bin/python
"""Ansible module: the kubelet of this node has a client certificate that is valid for long."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
import ssl
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from ansible.module_utils import appliance_programs as programs
from ansible.module_utils.appliance_files import write
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: kubelet_certificate
short_description: Renew the kubelet's own client certificate on this node
description:
  - C(read) tells what the certificate needs, and refuses what forbids a renewal. It changes
    nothing.
  - C(ask) restarts a kubelet whose certificate is still valid. At its start it requests the next
    one, because its time for that is over.
  - C(sign) makes a key and a certificate on a node that holds the key of the cluster's CA. Neither
    the API nor a running kubelet is needed.
  - C(bootstrap) gives the kubelet a token with which it requests a certificate as at its join
    (TLS bootstrap). The kubelet makes the key. The file with the token is removed, however it ends.
  - No private key leaves the node. A second run continues a killed one.
options:
  course: {description: What is done, type: str, choices: [read, ask, sign, bootstrap],
    default: read}
  name: {description: Name of the Node, type: str, required: true}
  within_days: {description: Fewer days left are too few, type: int, required: true}
  days: {description: How long a signed certificate is valid, type: int, default: 365}
  token: {description: The bootstrap token; only for C(bootstrap), type: str, default: ""}
  endpoint: {description: NAME:PORT of the API; only for C(bootstrap), type: str, default: ""}
  ca_cert_hash: {description: "sha256:HEX of the public key of the cluster's CA", type: str,
    default: ""}
  deadline_seconds: {description: How long a new certificate may take, type: int, default: 180}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Let the kubelet ask again
  kubelet_certificate: {course: ask, name: rack-w1, within_days: 7}
"""

RETURN = r"""
course: {description: "What is needed: empty, finish, ask, sign or bootstrap", type: str,
  returned: always}
"""

PKI = Path("/var/lib/kubelet/pki")
CURRENT = PKI / "kubelet-client-current.pem"
KUBELET_CONF = Path("/etc/kubernetes/kubelet.conf")
BOOTSTRAP_CONF = Path("/etc/kubernetes/bootstrap-kubelet.conf")
CA, CA_KEY = Path("/etc/kubernetes/pki/ca.crt"), Path("/etc/kubernetes/pki/ca.key")
# Exists from the first change to the last: the probe reports a renewal that was killed.
MARK = Path("/etc/kubernetes/appliance/certificates/kubelet.json")
# The first line of a bootstrap-kubelet.conf that this module wrote, and may remove.
OURS = "# Written by appliance cluster certificates renew; removed when it ends."
UNIT = "kubelet.service"
DAY = 86400
POLL_SECONDS = 1
# How often in a row a kubelet that was restarted must be found running.
SURE_LOOKS = 3
# How long the API may take to know a new token, and to answer.
TOKEN_SECONDS, ANSWER_SECONDS = 30, 10
PROGRAM_SECONDS = 120


class KubeletError(Exception):
    """The certificate was not renewed."""


def output(argv, data=None):
    """Return what a program prints, as bytes."""
    try:
        rc, out, err = programs.output(argv, PROGRAM_SECONDS, data)
    except programs.ProgramError as error:
        raise KubeletError(str(error)) from error
    if rc != 0:
        words = " ".join(argv[:2])
        raise KubeletError("%s: %s" % (words, err.decode("utf-8", "replace").strip()[-400:]))
    return out


def ends_within(pem, seconds):
    """Return whether a certificate ends within so many seconds."""
    argv = ["openssl", "x509", "-noout", "-checkend", str(seconds)]
    try:
        rc, out, err = programs.output(argv, PROGRAM_SECONDS, pem)
    except programs.ProgramError as error:
        raise KubeletError(str(error)) from error
    text = (out + err).decode("utf-8", "replace").strip()
    if rc not in (0, 1) or "will" not in text:
        raise KubeletError("%s is not a certificate: %s" % (CURRENT, text[-200:]))
    return rc == 1


def key_hash(pem):
    """Return the hash of a CA's public key in the form of kubeadm's discovery."""
    public = output(["openssl", "x509", "-noout", "-pubkey"], pem)
    der = output(["openssl", "pkey", "-pubin", "-outform", "der"], public)
    return "sha256:" + hashlib.sha256(der).hexdigest()


def is_ours(path):
    """Return whether a bootstrap-kubelet.conf was written by this module."""
    try:
        return path.read_text(errors="replace").startswith(OURS)
    except FileNotFoundError:
        return False


class Kubelet:
    """The kubelet of this node and its client certificate."""

    clock = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)

    def __init__(self, want):
        self._want = want

    def course(self):
        """Return what its certificate needs; nothing is changed.

        Raises:
            KubeletError: what forbids a renewal here.
        """
        pem = self._current()
        if not ends_within(pem, self._want["within_days"] * DAY):
            return "finish" if MARK.exists() or is_ours(BOOTSTRAP_CONF) else ""
        if str(CURRENT) not in KUBELET_CONF.read_text():
            raise KubeletError(
                "%s does not use %s: set client-certificate and client-key in it to that path"
                % (KUBELET_CONF, CURRENT)
            )
        if not ends_within(pem, 0):
            return "ask"
        if CA_KEY.exists():
            return "sign"
        self._require_bootstrap()
        return "bootstrap"

    def _current(self):
        try:
            return CURRENT.read_bytes()
        except OSError as error:
            raise KubeletError("%s: %s: this node is no member" % (CURRENT, error)) from error

    def _require_bootstrap(self):
        there = BOOTSTRAP_CONF.exists() or BOOTSTRAP_CONF.is_symlink()
        if there and (BOOTSTRAP_CONF.is_symlink() or not is_ours(BOOTSTRAP_CONF)):
            raise KubeletError(
                "%s is there, and this command did not write it: move it away, then run again"
                % BOOTSTRAP_CONF
            )
        properties = "--property=Environment,ExecStart"
        shown = output(["systemctl", "show", properties, UNIT]).decode("utf-8", "replace")
        if "--bootstrap-kubeconfig=%s" % BOOTSTRAP_CONF not in shown:
            raise KubeletError(
                "%s runs without --bootstrap-kubeconfig=%s: restore its drop-in 10-kubeadm.conf "
                "(appliance install --only host)" % (UNIT, BOOTSTRAP_CONF)
            )

    def carry_out(self):
        """Do what was asked for; return whether anything changed."""
        course = self.course()
        if not course:
            return False
        if course not in ("finish", self._want["course"]):
            raise KubeletError("the certificate changed since it was read: run again")
        if course != "finish":
            MARK.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write(MARK, json.dumps({"course": course}).encode(), 0o600)
            {"ask": self._ask, "sign": self._sign, "bootstrap": self._bootstrap}[course]()
        elif MARK.exists():
            # A run may have been killed after the new file and before the kubelet read it.
            self._restart()
            self._await_running()
        self._remove_token()
        if MARK.exists():
            MARK.unlink()
        return True

    def _ask(self):
        self._restart()
        self._await_new("see the requests of the nodes: kubectl get csr")

    def _sign(self):
        """Make a key and a certificate, and let the kubelet start with them."""
        key = output(["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt",
                      "ec_paramgen_curve:P-256"], None)  # fmt: skip
        subject = "/O=system:nodes/CN=system:node:%s" % self._want["name"]
        request = output(["openssl", "req", "-new", "-key", "/dev/stdin", "-subj", subject], key)
        with tempfile.NamedTemporaryFile("w", prefix="appliance-") as extensions:
            extensions.write(
                "basicConstraints=critical,CA:FALSE\n"
                "keyUsage=critical,digitalSignature,keyEncipherment\n"
                "extendedKeyUsage=clientAuth\n"
            )
            extensions.flush()
            argv = ["openssl", "x509", "-req", "-in", "/dev/stdin", "-CA", str(CA)]
            argv += ["-CAkey", str(CA_KEY), "-set_serial", "0x" + secrets.token_hex(15)]
            argv += ["-days", str(self._want["days"]), "-sha256", "-extfile", extensions.name]
            certificate = output(argv, request)
        if ends_within(certificate, self._want["within_days"] * DAY):
            raise KubeletError(
                "the certificate that was signed ends too soon: see the node's clock"
            )
        # The form of the kubelet's own files: it keeps the link, and removes none of them.
        made = PKI / time.strftime("kubelet-client-%Y-%m-%d-%H-%M-%S.pem", time.gmtime())
        write(made, certificate + key, 0o600)
        link = PKI / ".appliance-kubelet-client.pem"
        if link.is_symlink():
            link.unlink()
        link.symlink_to(made)
        link.replace(CURRENT)
        self._restart()
        self._await_running()

    def _bootstrap(self):
        """Let the kubelet request a certificate with a token, as at its join."""
        ca = CA.read_bytes()
        if key_hash(ca) != self._want["ca_cert_hash"]:
            raise KubeletError("%s is not the CA of this cluster" % CA)
        if not re.match(r"^[a-z0-9]{6}\.[a-z0-9]{16}$", self._want["token"]):
            raise KubeletError("no bootstrap token was given")
        self._require_api(ca)
        write(BOOTSTRAP_CONF, self._kubeconfig(ca).encode(), 0o600)
        try:
            self._restart()
            self._await_new("see the requests of the nodes: kubectl get csr")
        finally:
            self._remove_token()

    def _require_api(self, ca):
        """Ask the API with the token: a kubelet without an API does not come up again.

        The one that runs with an ended certificate still starts containers anew and probes them.
        """
        until = self.clock() + TOKEN_SECONDS
        while True:
            try:
                return self._ask_version(ca)
            except (OSError, ValueError) as error:
                if self.clock() >= until:
                    raise KubeletError(
                        "the API at %s does not take the new token from this node: %s: the kubelet "
                        "was not restarted; see the way to the API, then run the same command again"
                        % (self._want["endpoint"], error)
                    ) from error
            self.sleep(POLL_SECONDS)

    def _ask_version(self, ca):
        context = ssl.create_default_context(cadata=ca.decode("ascii"))
        # A proxy of the environment is for the internet.
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        request = urllib.request.Request(  # noqa: S310  (https)
            "https://%s/version" % self._want["endpoint"],
            headers={"Authorization": "Bearer " + self._want["token"]},
        )
        try:
            opener.open(request, timeout=ANSWER_SECONDS).close()
        except urllib.error.HTTPError as error:
            # It knows the token, and tells its version to administrators alone.
            if error.code != 403:
                raise

    def _kubeconfig(self, ca):
        cluster = {
            "server": "https://%s" % self._want["endpoint"],
            "certificate-authority-data": base64.b64encode(ca).decode("ascii"),
        }
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "kubernetes", "cluster": cluster}],
            "users": [{"name": "tls-bootstrap", "user": {"token": self._want["token"]}}],
            "contexts": [
                {"name": "bootstrap", "context": {"cluster": "kubernetes", "user": "tls-bootstrap"}}
            ],
            "current-context": "bootstrap",
        }
        return "%s\n%s\n" % (OURS, json.dumps(document, indent=2))

    def _remove_token(self):
        if is_ours(BOOTSTRAP_CONF):
            BOOTSTRAP_CONF.unlink()

    def _restart(self):
        output(["systemctl", "restart", UNIT])

    def _await_new(self, hint):
        """Wait until the kubelet has a certificate that is valid for long enough."""
        until = self.clock() + self._want["deadline_seconds"]
        while ends_within(self._current(), self._want["within_days"] * DAY):
            if self.clock() >= until:
                raise KubeletError(
                    "after %d s the kubelet has no new certificate: read its log (journalctl -u "
                    "kubelet), and %s" % (self._want["deadline_seconds"], hint)
                )
            self.sleep(POLL_SECONDS)

    def _await_running(self):
        until, steady = self.clock() + self._want["deadline_seconds"], 0
        while steady < SURE_LOOKS:
            rc = programs.run(["systemctl", "is-active", "--quiet", UNIT])[0]
            steady = steady + 1 if rc == 0 else 0
            if self.clock() >= until:
                raise KubeletError(
                    "the kubelet does not run with its new certificate: journalctl -u kubelet"
                )
            self.sleep(POLL_SECONDS)


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "course": {
                "type": "str",
                "choices": ["read", "ask", "sign", "bootstrap"],
                "default": "read",
            },
            "name": {"type": "str", "required": True},
            "within_days": {"type": "int", "required": True},
            "days": {"type": "int", "default": 365},
            "token": {"type": "str", "default": "", "no_log": True},
            "endpoint": {"type": "str", "default": ""},
            "ca_cert_hash": {"type": "str", "default": ""},
            "deadline_seconds": {"type": "int", "default": 180},
        },
        supports_check_mode=True,
    )
    kubelet = Kubelet(module.params)
    try:
        course = kubelet.course()
        if module.params["course"] == "read" or module.check_mode:
            changed = bool(course) and module.params["course"] != "read"
            module.exit_json(changed=changed, course=course)
        module.exit_json(changed=kubelet.carry_out(), course=course)
    except (KubeletError, OSError, ValueError) as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
