"""Two researchers on a node of the lab, with the CLI's stand-in; one of them is logged in."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from appliance.lab.site.site import ADMIN_PASSWORD
from tests.lab.conftest import LabSite
from tests.lab.runai.commands import Commands
from tests.lab.support.cluster import KUBECTL
from tests.lab.support.issuer import put, settings_file, site_with

HOST = "w1"
NAMES = ("ada", "grace")
# Who they are to the backend; the stand-in's first user.
LOGIN = "test@run.ai"
PROJECT = "runai-team-a"
# STANDIN of the vendor's program: it logs in as the vendor's does, and keeps the token where
# kubectl looks for it; name and password come by standard input.
CLI = r'''#!/usr/bin/python3
"""STANDIN of the Run:ai CLI."""
import json, os, pathlib, re, ssl, subprocess, sys, urllib.parse, urllib.request

def login():
    path = pathlib.Path.home() / ".kube/config"
    text = path.read_text()
    url = re.search(r"idp-issuer-url: (\S+)", text).group(1)
    name, password = sys.stdin.read().split()
    form = {"grant_type": "password", "client_id": "runai", "username": name, "password": password}
    data = urllib.parse.urlencode(form).encode()
    context = ssl.create_default_context(cafile="/etc/appliance/ca.crt")
    answer = urllib.request.urlopen(url + "/protocol/openid-connect/token", data, context=context)
    token = json.load(answer)["id_token"]
    text = re.sub(r"\n *id-token: .*", "", text)
    path.write_text(re.sub(r"(\n *)(idp-issuer-url: \S+)", r"\1\2\1id-token: " + token, text))
    print("Logged in successfully (STANDIN)")

verb = sys.argv[1:]
if verb == ["login"]:
    login()
elif verb == ["list", "jobs"]:
    sys.exit(subprocess.call(["kubectl", "get", "pods"]))
elif verb[:1] == ["completion"]:
    print("complete -W 'login list completion version' runai")
else:
    print("Version: 2.7.14 STANDIN")
'''


@dataclass(frozen=True)
class Researchers:
    """Who works on a node, and how they got there.

    Attributes:
        lab: whose node it is.
        words: the command that brought the CLI, to be run again.
    """

    lab: LabSite
    words: tuple[str, ...]

    def run(self, name: str, command: str, *, stdin: str = "") -> str:
        """What a command says to a researcher, on both streams, whatever its end."""
        done = subprocess.run(
            ["podman", "exec", "-i", self.lab.node(HOST), "runuser", "-l", name, "-c", command],
            input=stdin, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        return done.stdout + done.stderr

    def log_in(self, name: str) -> str:
        """Log in as the backend's first user; what the program said."""
        return self.run(name, "runai login", stdin=f"{LOGIN} {ADMIN_PASSWORD}")

    def token(self, name: str) -> str:
        """The token in a researcher's file; empty without a login."""
        text = self.lab.shell(HOST, f"cat /home/{name}/.kube/config")
        found = re.search(r"\bid-token: (\S+)", text)
        return found.group(1) if found else ""


@contextmanager
def researchers_of(lab: LabSite, commands: Commands) -> Iterator[Researchers]:
    """Trust logins, bring the CLI for two users, and log one of them in."""
    for name in NAMES:
        lab.shell(HOST, f"id {name} >/dev/null 2>&1 || useradd --create-home {name}")
    program = lab.directory / ".appliance" / "vendor" / "runai"
    Path(program).write_text(CLI)
    settings = yaml.safe_load(settings_file(lab).read_text())
    runai = {**settings["runai"], "access": {"enabled": True}}
    with site_with(lab, runai=runai):
        site = ("--site", str(lab.directory))
        commands.succeed("runai", "access", "enable", *site, "--yes")
        users = [word for name in NAMES for word in ("--user", name)]
        words = ("runai", "cli", "install", *site, "--nodes", lab.node(HOST), *users, "--yes")
        commands.succeed(*words, "--cli", str(program))
        found = Researchers(lab, words)
        _admit(found)
        yield found


def _admit(found: Researchers) -> None:
    """Let the login list the pods of one project, as the vendor's controller does."""
    assert "Logged in" in found.log_in("ada")
    refused = found.run("ada", f"kubectl -n {PROJECT} get pods")
    seen = re.search(r'User "([^"]+)" cannot list resource', refused)
    # Who was admitted by an earlier run is refused nothing.
    if seen is None:
        assert "No resources found" in refused, refused
        return
    put(found.lab, "cp1", _rights(seen.group(1)), "/root/project.yaml")
    found.lab.shell("cp1", f"{KUBECTL} apply -f /root/project.yaml")


def _rights(user: str) -> str:
    api = "rbac.authorization.k8s.io"
    role = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}
    place = {"name": "researcher", "namespace": PROJECT}
    return yaml.safe_dump_all(
        [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PROJECT}},
            {"apiVersion": f"{api}/v1", "kind": "Role", "metadata": place, "rules": [role]},
            {
                "apiVersion": f"{api}/v1",
                "kind": "RoleBinding",
                "metadata": place,
                "roleRef": {"apiGroup": api, "kind": "Role", "name": "researcher"},
                "subjects": [{"apiGroup": api, "kind": "User", "name": user}],
            },
        ]
    )
