"""A workload of two replicas behind a Service and a budget, asked five times a second."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.lab.conftest import LabSite, wait_for
from tests.lab.support.cluster import busybox, kubectl

EVERY, PATIENCE = 0.2, 2.0
NAME, PORT = "upgrade-web", 30080
# A pod that ends is asked until every kube-proxy has forgotten it, so it ends a while later.
MANIFEST = """
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: default}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      tolerations: {tolerations}
      terminationGracePeriodSeconds: 30
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector: {{matchLabels: {{app: {name}}}}}
      containers:
        - name: web
          image: {image}
          command: [sh, -c, "mkdir /www; echo well >/www/index.html; exec httpd -f -p 8080 -h /www"]
          lifecycle: {{preStop: {{exec: {{command: [sleep, "10"]}}}}}}
          readinessProbe: {{httpGet: {{path: /, port: 8080}}, periodSeconds: 1}}
---
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: default}}
spec:
  type: NodePort
  selector: {{app: {name}}}
  ports: [{{port: 80, targetPort: 8080, nodePort: {port}}}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: {name}, namespace: default}}
spec:
  minAvailable: 1
  selector: {{matchLabels: {{app: {name}}}}}
"""


MASTERS = ("node-role.kubernetes.io/master", "node-role.kubernetes.io/control-plane")


@dataclass
class Asked:
    """How many requests were made, and why some failed."""

    total: int = 0
    lost: list[str] = field(default_factory=list)


@contextmanager
def asking(lab: LabSite, *, everywhere: bool = False) -> Iterator[Asked]:
    """Make the workload, ask it while the context lasts, and remove it.

    ``everywhere`` lets it run on control planes: one worker alone has no room for a second pod.
    """
    allowed = [{"key": k, "operator": "Exists", "effect": "NoSchedule"} for k in MASTERS]
    tolerations = json.dumps(allowed if everywhere else [])
    text = MANIFEST.format(name=NAME, image=busybox(lab), port=PORT, tolerations=tolerations)
    kubectl(lab, f"apply -f - <<'END'\n{text}END")
    kubectl(lab, f"rollout status deployment/{NAME} --timeout=180s")
    found, over = Asked(), threading.Event()
    wait_for("an answer of the Service", lambda: not _fault(lab), 60)
    thread = threading.Thread(target=_ask, args=(lab, found, over), daemon=True)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join(10)
        kubectl(lab, f"delete deployment,service,pdb {NAME} --wait=false", check=False)


def _ask(lab: LabSite, found: Asked, over: threading.Event) -> None:
    due = time.monotonic()
    while not over.is_set():
        fault = _fault(lab)
        found.total += 1
        found.lost += [fault] if fault else []
        due += EVERY
        time.sleep(max(0.0, due - time.monotonic()))


def _fault(lab: LabSite) -> str:
    line = http.client.HTTPConnection(lab.address("cp1"), PORT, timeout=PATIENCE)
    try:
        line.request("GET", "/")
        answer = line.getresponse()
        return "" if (answer.status, answer.read()) == (200, b"well\n") else str(answer.status)
    except (OSError, http.client.HTTPException) as error:
        return f"{time.strftime('%H:%M:%S')} {error!r}"
    finally:
        line.close()
