"""Work of users in a lab, and a backup of it with the key that opens it."""

from __future__ import annotations

import re
from pathlib import Path

from tests.commands import succeed
from tests.lab.conftest import LabSite
from tests.lab.support.cluster import busybox, kubectl

WORK = """
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web, namespace: research}}
spec:
  replicas: 1
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      containers:
        - name: web
          image: {image}
          command: [sh, -c, "mkdir /www; echo well >/www/index.html; exec httpd -f -p 8080 -h /www"]
          readinessProbe: {{httpGet: {{path: /, port: 8080}}, periodSeconds: 1}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: notes, namespace: research}}
data: {{history: "three jobs"}}
"""


def put_work(lab: LabSite, more: str = "") -> None:
    """A namespace with a Deployment that serves, notes, and more documents."""
    kubectl(lab, "create namespace research")
    kubectl(lab, f"apply -f - <<'END'\n{WORK.format(image=busybox(lab))}{more}END")


def backed_up(lab: LabSite, folder: Path, seconds: float) -> tuple[Path, Path]:
    """The file of a backup, and the private key; both are in the folder."""
    key, place = folder / "key", folder / "backups"
    place.mkdir()
    public = succeed("cluster", "backup", "key", str(key)).stdout
    (recipient,) = re.findall(r"age1[a-z0-9]{58}", public)
    settings = lab.directory / "group_vars/all/site.yml"
    settings.write_text(
        f"{settings.read_text()}\nbackup: {{recipients: [{recipient}], to: {place}}}\n"
    )
    succeed("cluster", "backup", "create", "--site", str(lab.directory), "--yes", timeout=seconds)
    (file,) = place.glob("*.backup")
    return file, key
