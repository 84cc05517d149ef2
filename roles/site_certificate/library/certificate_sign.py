#!/usr/bin/python
"""Ansible module for the control host: sign a request with the site's certificate authority.

Runs in the control process's own Python (it needs cryptography), never on a node.
"""

from __future__ import annotations

import datetime
import ipaddress
import traceback

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError:
    CRYPTOGRAPHY_ERROR = traceback.format_exc()
else:
    CRYPTOGRAPHY_ERROR = None

DOCUMENTATION = r"""
module: certificate_sign
short_description: Sign a request with the site's certificate authority
description:
  - The certificate has the names given here, and the first of them as its subject. Only the key
    is used of the request, after its signature was verified.
  - Only computes; a later task writes the certificate.
options:
  csr: {description: The request (PEM), type: str, required: true}
  names: {description: Host names, type: list, elements: str, required: true}
  addresses: {description: IP addresses, type: list, elements: str, default: []}
  authority: {description: Certificate (PEM) of the authority, type: str, required: true}
  authority_key: {description: Its key (PEM), type: str, required: true}
  valid_days: {description: How long it is valid, type: int, default: 730}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Sign
  certificate_sign:
    csr: "{{ csr }}"
    names: [artifacts.example]
    authority: "{{ authority }}"
    authority_key: "{{ key }}"
  delegate_to: localhost
  no_log: true
"""

RETURN = r"""
certificate: {description: The certificate and intermediates (PEM), type: str, returned: always}
"""


def issuer_of(authorities, key):
    """Return the certificate among several that belongs to the key."""
    for authority in authorities:
        if authority.public_key() == key.public_key():
            return authority
    raise ValueError("the key of the authority matches none of its certificates")


def subject_of(names):
    """Return the subject of the certificate: the first of its names."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64]) for name in names[:1]])


def sign(want, now):
    """Return the certificate, followed by the intermediates."""
    request = x509.load_pem_x509_csr(want["csr"].encode())
    if not request.is_signature_valid:
        raise ValueError("the request is not signed by its own key")
    authorities = x509.load_pem_x509_certificates(want["authority"].encode())
    key = serialization.load_pem_private_key(want["authority_key"].encode(), None)
    issuer = issuer_of(authorities, key)
    names = [x509.DNSName(name) for name in want["names"]]
    names += [x509.IPAddress(ipaddress.ip_address(text)) for text in want["addresses"]]
    until = now + datetime.timedelta(days=want["valid_days"])
    authority_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject_of(want["names"]))
        .issuer_name(issuer.subject)
        .public_key(request.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(min(until, issuer.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(authority_id, critical=False)
        .sign(key, hashes.SHA256())
    )
    chain = [certificate, *(one for one in authorities if one.issuer != one.subject)]
    return "".join(one.public_bytes(serialization.Encoding.PEM).decode() for one in chain)


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "csr": {"type": "str", "required": True},
            "names": {"type": "list", "elements": "str", "required": True},
            "addresses": {"type": "list", "elements": "str", "default": []},
            "authority": {"type": "str", "required": True},
            "authority_key": {"type": "str", "required": True, "no_log": True},
            "valid_days": {"type": "int", "default": 730},
        },
        supports_check_mode=True,
    )
    if CRYPTOGRAPHY_ERROR:
        module.fail_json(msg=missing_required_lib("cryptography"), exception=CRYPTOGRAPHY_ERROR)
    now = datetime.datetime.now(datetime.timezone.utc)
    try:
        module.exit_json(changed=False, certificate=sign(module.params, now))
    except (ValueError, TypeError) as error:
        module.fail_json(msg="the certificate cannot be signed: %s" % error)


if __name__ == "__main__":
    main()
