#!/usr/bin/python
"""Ansible module: create a key and a signing request if a service needs a certificate."""

from __future__ import annotations

import grp
import os
import re
import tempfile
from pathlib import Path

from ansible.module_utils.appliance_programs import runner
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: certificate_request
short_description: Create a key and a signing request when a certificate is needed
description:
  - Checks C(<path>.key) and C(<path>.crt) with the openssl command. A new certificate is needed
    when it is missing, expires soon, names other hosts, belongs to another key, or was issued by
    another authority. A key is created only when there is no readable one.
options:
  path: {description: Path without suffix, type: path, required: true}
  names: {description: Host names, type: list, elements: str, required: true}
  addresses: {description: IP addresses, type: list, elements: str, default: []}
  authority: {description: Certificate (PEM) of the authority, type: str, required: true}
  renew_days: {description: Days left below which it is renewed, type: int, default: 30}
  group: {description: Group that may read the key, type: str, default: root}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Request a certificate
  certificate_request:
    path: /etc/appliance/tls/artifacts
    names: [artifacts.example]
    authority: "{{ site_certificate_ca_certificate }}"
"""

RETURN = r"""
reason: {description: Why a certificate is needed, type: str, returned: when it is}
csr: {description: The request (PEM), type: str, returned: when it is needed and not in check mode}
"""


class RequestError(Exception):
    """openssl refused."""


class Certificate:
    """A key and a certificate on this host, through the openssl command."""

    def __init__(self, path, run):
        self.key = Path(path + ".key")
        self.crt = Path(path + ".crt")
        self._run = run

    def openssl(self, *arguments):
        """Return (worked, stdout)."""
        rc, out, _ = self._run(["openssl", *arguments])
        return rc == 0, out

    def public_keys(self):
        """Return the public keys of the key and of the certificate; None for an invalid one."""
        key_fine, of_key = self.openssl("pkey", "-in", str(self.key), "-pubout")
        crt_fine, of_crt = self.openssl("x509", "-in", str(self.crt), "-noout", "-pubkey")
        return (of_key if key_fine else None), (of_crt if crt_fine else None)

    def alternative_names(self):
        """Return the names and addresses the certificate is for."""
        _, out = self.openssl("x509", "-in", str(self.crt), "-noout", "-ext", "subjectAltName")
        return set(re.findall(r"(?:DNS|IP Address):([^\s,]+)", out))

    def end(self):
        """Return openssl's line with the certificate's expiry."""
        return self.openssl("x509", "-in", str(self.crt), "-noout", "-enddate")[1]

    def ends_within(self, days):
        """Return whether the certificate expires within that many days."""
        seconds = str(days * 86400)
        return not self.openssl("x509", "-in", str(self.crt), "-noout", "-checkend", seconds)[0]

    def end_of(self, authority):
        """Return when the authority expires: no certificate outlives it."""
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(authority)
            file.flush()
            return self.openssl("x509", "-in", file.name, "-noout", "-enddate")[1]

    def issued_by(self, authority):
        """Return whether the authority issued it, and it is valid now."""
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(authority)
            file.flush()
            return self.openssl("verify", "-no-CApath", "-CAfile", file.name, str(self.crt))[0]

    def faults(self, names, authority, renew_days):
        """Yield why a new certificate is needed, lazily."""
        if not self.crt.exists():
            yield "there is no certificate"
        of_key, of_crt = self.public_keys()
        if of_crt is None:
            yield "the certificate cannot be read"
        if of_key is None:
            yield "the certificate has no key"
        if of_key != of_crt:
            yield "the certificate belongs to another key"
        if self.alternative_names() != set(names):
            yield "the certificate is for %s" % (", ".join(sorted(self.alternative_names())))
        if self.ends_within(renew_days) and self.end() != self.end_of(authority):
            yield "the certificate expires within %d days" % renew_days
        if not self.issued_by(authority):
            yield "the certificate was issued by another authority, or is not valid yet"

    def make_key(self):
        """Create a key, unless there is a readable one."""
        if self.key.exists() and self.openssl("pkey", "-in", str(self.key), "-noout")[0]:
            return
        self.key.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        new = self.key.with_name(self.key.name + ".new")
        new.unlink() if new.exists() else None
        os.close(os.open(str(new), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        made, _ = self.openssl(
            "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", str(new)
        )
        if not made:
            raise RequestError("openssl could not make a key in %s" % self.key.parent)
        new.replace(self.key)

    def request(self, name):
        """Return a signing request for the key."""
        made, out = self.openssl("req", "-new", "-key", str(self.key), "-subj", "/CN=" + name[:64])
        if not made:
            raise RequestError("openssl could not make a request with %s" % self.key)
        return out


def key_access(path, group, check_mode):
    """Set mode and group of the key; return whether they differed."""
    if not path.exists():
        return False
    state = path.stat()
    want = (0o640, grp.getgrnam(group)[2]) if group != "root" else (0o600, 0)
    if (state.st_mode & 0o7777, state.st_gid, state.st_uid) == (*want, 0):
        return False
    if not check_mode:
        os.chown(str(path), 0, want[1])
        path.chmod(want[0])
    return True


def converge(module):
    """Return the result of the module."""
    want = module.params
    certificate = Certificate(want["path"], runner(module))
    names = [*want["names"], *want["addresses"]]
    reason = next(certificate.faults(names, want["authority"], want["renew_days"]), None)
    result = {"changed": bool(reason)}
    if reason:
        result["reason"] = reason
        if not module.check_mode:
            certificate.make_key()
            result["csr"] = certificate.request(want["names"][0])
    if key_access(certificate.key, want["group"], module.check_mode):
        result["changed"] = True
    return result


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "names": {"type": "list", "elements": "str", "required": True},
            "addresses": {"type": "list", "elements": "str", "default": []},
            "authority": {"type": "str", "required": True},
            "renew_days": {"type": "int", "default": 30},
            "group": {"type": "str", "default": "root"},
        },
        supports_check_mode=True,
    )
    module.get_bin_path("openssl", required=True)
    try:
        module.exit_json(**converge(module))
    except (RequestError, OSError, KeyError) as error:
        module.fail_json(msg="%s: %s" % (module.params["path"], error))


if __name__ == "__main__":
    main()
