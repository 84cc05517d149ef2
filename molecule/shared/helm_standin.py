#!/usr/bin/python3
"""STANDIN for helm: it keeps a release as helm does, and makes one Deployment that is ready.

It knows two commands. ``upgrade --install`` writes into the objects of the stand-in for kubectl,
and keeps the names of the values files that it was given, with what was in them. ``template`` takes
a chart whose one template prints its values. Values files are JSON, and charts have no values.
"""

import base64
import gzip
import json
import sys
import tarfile
from pathlib import Path

STATE = Path("/var/lib/kubectl-standin/objects.json")
VALUES = STATE.with_name("helm-values.json")
COMMANDS = (["template"], ["upgrade", "--install"])
TEMPLATE = "values: {{ .Values | toJson | b64enc }}\n"


def packed(release):
    """Return a release as its secret holds it."""
    return base64.b64encode(base64.b64encode(gzip.compress(json.dumps(release).encode()))).decode()


def merged(base, more):
    """Merge deeply; lists and plain values of ``more`` replace those of ``base``."""
    found = dict(base)
    for key, value in more.items():
        both = isinstance(found.get(key), dict) and isinstance(value, dict)
        found[key] = merged(found[key], value) if both else value
    return found


def values_of(files):
    """Return the values that some files give together, the last one over the others."""
    found = {}
    for file in files:
        found = merged(found, json.loads(Path(file).read_text()))
    return found


def template(chart, files):
    """Print what the one template of a chart prints."""
    with tarfile.open(chart) as archive:
        names = [name for name in archive.getnames() if "/templates/" in name]
        texts = [archive.extractfile(name).read().decode() for name in names]
    if texts != [TEMPLATE]:
        raise SystemExit("this STANDIN for helm knows one template alone")
    printed = base64.b64encode(json.dumps(values_of(files)).encode()).decode()
    sys.stdout.write(f"---\nvalues: {printed}\n")


def main():
    """Render a chart, install it, or upgrade it to the next revision."""
    command = next((one for one in COMMANDS if sys.argv[1 : 1 + len(one)] == one), None)
    if command is None:
        raise SystemExit("this STANDIN for helm knows template and upgrade --install alone")
    name, chart, *words = sys.argv[1 + len(command) :]
    if not Path(chart).is_file():
        raise SystemExit(f"there is no chart {chart}")
    flags = [word[2:].partition("=") for word in words]
    files = [value for flag, _, value in flags if flag == "values"]
    if command == ["template"]:
        template(chart, files)
        return
    namespace = next(value for flag, _, value in flags if flag == "namespace")
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
        "data": {"release": packed({"manifest": manifest, "config": values_of(files)})},
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
