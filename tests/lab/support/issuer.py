"""The OIDC issuer stand-in on a lab's worker, and a site that asks for researchers' access."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.commands import succeed
from tests.lab.conftest import LabSite, wait_for

STANDIN = Path(__file__).parents[3] / "appliance/lab/standins/oidc_standin/oidc_standin.py"
PASSWORD = "canary-4711-of-ada"  # noqa: S105  (searched for, and found nowhere)
USERS = {"ada": {"password": PASSWORD, "sub": "sub-of-ada", "email": "ada@lab.test"}}
UNIT, FOLDER, HOST = "oidc-standin", "/opt/oidc_standin", "w1"
LOGIN = """
import json, ssl, sys, urllib.parse, urllib.request
url, user, password = sys.argv[1], *sys.stdin.read().split()
context = ssl.create_default_context(cafile="/etc/appliance/ca.crt")
form = {"grant_type": "password", "client_id": "runai", "username": user, "password": password}
data = urllib.parse.urlencode(form).encode()
print(json.load(urllib.request.urlopen(url, data, context=context, timeout=10))["id_token"])
"""


@dataclass(frozen=True)
class Issuer:
    """The stand-in, under the name that the site's backend will have."""

    lab: LabSite
    domain: str

    @property
    def url(self) -> str:
        """What the API server is told."""
        return f"https://{self.domain}/auth/realms/runai"

    def serve(self, called: str | None = None) -> None:
        """Start it (again), calling itself by another name if asked."""
        self.stop()
        names = {"certificate": "tls.crt", "key": "tls.key", "signing-key": "signing.pem"}
        files = {**names, "users": "users.json"}
        options = " ".join(f"--{option} {FOLDER}/{name}" for option, name in files.items())
        self.lab.shell(
            HOST,
            f"systemd-run --quiet --unit={UNIT} --collect python3 {FOLDER}/oidc_standin.py "
            f"--issuer {called or self.url} {options}",
        )
        known = f"curl -sS --cacert /etc/appliance/ca.crt https://{self.domain}/"
        wait_for(
            "the issuer stand-in", lambda: "not found" in self.lab.shell("cp1", known, check=False)
        )

    def stop(self) -> None:
        """Stop it."""
        self.lab.shell(HOST, f"systemctl stop {UNIT} 2>/dev/null", check=False)

    def login(self, user: str) -> str:
        """An id token of a user; the password goes by standard input."""
        done = subprocess.run(
            ["podman", "exec", "-i", self.lab.node("cp1"), "python3", "-c", LOGIN,
             f"{self.url}/protocol/openid-connect/token"],
            input=f"{user} {USERS[user]['password']}", capture_output=True, text=True,
            timeout=30, check=True,
        )  # fmt: skip
        return done.stdout.strip()


def put(lab: LabSite, short: str, text: str, path: str) -> None:
    """Write a file on a node, root only, without its content in any argument list."""
    subprocess.run(
        ["podman", "exec", "-i", lab.node(short), "sh", "-c", f"umask 077; cat > {path}"],
        input=text, text=True, timeout=30, check=True,
    )  # fmt: skip


@contextmanager
def issuer_of(lab: LabSite, tmp: Path) -> Iterator[Issuer]:
    """Run the stand-in; its certificate is made and signed as a customer would."""
    domain = f"runai.{yaml.safe_load(settings_file(lab).read_text())['domain']}"
    succeed("runai", "csr", "--site", str(lab.directory), "--out", str(tmp), "--sign")
    lab.shell(HOST, f"mkdir -p -m 700 {FOLDER}")
    put(lab, HOST, STANDIN.read_text(), f"{FOLDER}/oidc_standin.py")
    put(lab, HOST, json.dumps(USERS), f"{FOLDER}/users.json")
    for kind in ("key", "crt"):
        put(lab, HOST, (tmp / f"{domain}.{kind}").read_text(), f"{FOLDER}/tls.{kind}")
    entry = f"{lab.address(HOST)} {domain}"
    lab.shell("cp1", f"grep -qxF '{entry}' /etc/hosts || echo '{entry}' >> /etc/hosts")
    issuer = Issuer(lab, domain)
    issuer.serve()
    yield issuer
    issuer.stop()


def settings_file(lab: LabSite) -> Path:
    """The site's settings."""
    return lab.directory / "group_vars/all/site.yml"


@contextmanager
def site_with(lab: LabSite, **sections: object) -> Iterator[None]:
    """Other sections in the site's settings, for as long as this lasts."""
    path = settings_file(lab)
    before = path.read_text()
    path.write_text(yaml.safe_dump({**yaml.safe_load(before), **sections}))
    try:
        yield
    finally:
        path.write_text(before)
