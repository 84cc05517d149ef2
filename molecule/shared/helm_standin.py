#!/usr/bin/python3
"""STANDIN for helm: it keeps a release as helm does, and makes one Deployment that is ready.

It knows ``upgrade --install`` alone, writes into the objects of the stand-in for kubectl, and keeps
the names of the values files that it was given, with what was in them.
"""

import base64
import gzip
import json
import sys
from pathlib import Path

STATE = Path("/var/lib/kubectl-standin/objects.json")
VALUES = STATE.with_name("helm-values.json")


def packed(release):
    """Return a release as its secret holds it."""
    return base64.b64encode(base64.b64encode(gzip.compress(json.dumps(release).encode()))).decode()


def main():
    """Install, or upgrade to the next revision."""
    if sys.argv[1:3] != ["upgrade", "--install"]:
        raise SystemExit("this STANDIN for helm knows upgrade --install alone")
    name, chart = sys.argv[3:5]
    if not Path(chart).is_file():
        raise SystemExit(f"there is no chart {chart}")
    flags = [word[2:].partition("=") for word in sys.argv[5:]]
    namespace = next(value for flag, _, value in flags if flag == "namespace")
    files = [value for flag, _, value in flags if flag == "values"]
    VALUES.write_text(json.dumps({file: Path(file).read_text() for file in files}))
    objects = json.loads(STATE.read_text())
    ours = [
        item for item in objects.values() if item["metadata"].get("labels", {}).get("name") == name
    ]
    revision = len(ours) + 1
    for item in ours:
        item["metadata"]["labels"]["status"] = "superseded"
    where = {"name": name, "namespace": namespace}
    manifest = f"kind: Deployment\nmetadata:\n  name: {name}\n  namespace: {namespace}\n"
    labels = {"owner": "helm", "name": name, "version": str(revision), "status": "deployed"}
    secret = f"sh.helm.release.v1.{name}.v{revision}"
    made = {"kind": "Namespace", "metadata": {"name": namespace}}
    objects.setdefault(f"namespace//{namespace}", made)
    objects[f"secret/{namespace}/{secret}"] = {
        "kind": "Secret",
        "metadata": {"name": secret, "namespace": namespace, "labels": labels},
        "data": {"release": packed({"manifest": manifest})},
    }
    objects[f"deployment/{namespace}/{name}"] = {
        "kind": "Deployment",
        "metadata": {**where, "generation": revision},
        "spec": {"replicas": 1},
        "status": {
            "readyReplicas": 1,
            "updatedReplicas": 1,
            "replicas": 1,
            "observedGeneration": revision,
        },
    }
    STATE.write_text(json.dumps(objects, indent=1))


main()
