"""A node that takes no key of ours: the fault says so, whatever the format of the key's file.

paramiko tries to read the file as each kind of key that it knows, and raises the last error: of a
kind that the key is not, where the node has refused the right one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from appliance.adapters.ssh.nodes import SshNodes
from tests import samples
from tests.ssh_server import is_silent, servers

PEM, OPENSSH = PrivateFormat.TraditionalOpenSSL, PrivateFormat.OpenSSH


@pytest.mark.parametrize(
    ("kind", "form"),
    [("rsa", PEM), ("rsa", OPENSSH), ("ecdsa", PEM), ("ecdsa", OPENSSH), ("ed25519", OPENSSH)],
    ids=["RSA, PEM", "RSA, OpenSSH", "ECDSA, PEM", "ECDSA, OpenSSH", "Ed25519, OpenSSH"],
)
def test_a_refused_key_is_a_failed_authentication(
    kind: str, form: PrivateFormat, tmp_path: Path
) -> None:
    makes: dict[str, Callable[[], Any]] = {
        "rsa": lambda: rsa.generate_private_key(65537, 2048),
        "ecdsa": lambda: ec.generate_private_key(ec.SECP256R1()),
        "ed25519": ed25519.Ed25519PrivateKey.generate,
    }
    key = makes[kind]()
    with servers(tmp_path) as rack:
        site = rack.serve(samples.site(workers=0), {"cp1": is_silent})
        file = Path(str(site.settings.ssh.private_key))
        file.write_bytes(key.private_bytes(Encoding.PEM, form, NoEncryption()))
        rack.refusing = {"cp1"}
        nodes = SshNodes(site)
        try:
            look = nodes.look(site.nodes)
        finally:
            nodes.close()
    (fault,) = look.faults
    assert "authentication failed for user ubuntu" in fault.reason
    assert "ssh-copy-id" in fault.hint
    assert fault.answers
    assert not fault.logged_in
    # Its host key was compared before: whoever set it up confirmed it.
    assert look.host_key_known("cp1")
