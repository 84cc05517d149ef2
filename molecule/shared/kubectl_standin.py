#!/usr/bin/python3
"""STANDIN for kubectl and the API behind it: objects in a file, and pods that run at once.

For scenarios of roles that talk to a cluster. It knows the calls of our modules and no others; a
manifest is kept as its text, and read no further than kind, name and namespace.
"""

import json
import re
import socket
import sys
from pathlib import Path

STATE = Path("/var/lib/kubectl-standin/objects.json")
CALLS = STATE.with_name("calls.log")
CLUSTER_WIDE = {
    *("namespace", "node", "persistentvolume", "storageclass"),
    *("clusterrole", "clusterrolebinding"),
}


def say(text):
    """Print a line."""
    sys.stdout.write(text + "\n")


def load():
    """Return the objects; a new cluster has this machine as its node."""
    if STATE.exists():
        return json.loads(STATE.read_text())
    name = socket.gethostname()
    return {
        f"node//{name}": {
            "kind": "Node",
            "metadata": {"name": name, "labels": {"node-role.kubernetes.io/control-plane": ""}},
            "status": {
                "conditions": [{"type": "Ready", "status": "True", "message": "standin"}],
                "nodeInfo": {"kubeletVersion": "v1.23.5"},
            },
        }
    }


def kind_of(word):
    """Return a kind as it is kept: singular, lower case, without its group."""
    kind = word.lower().split(".")[0]
    return kind[:-1] if kind.endswith("s") and not kind.endswith("class") else kind


def key_of(kind, namespace, name):
    """Return the key of an object."""
    return "/".join((kind, "" if kind in CLUSTER_WIDE else namespace or "default", name))


def documents(path):
    """Yield (key, object) of a file's documents."""
    text = sys.stdin.read() if path == "-" else Path(path).read_text()
    for part in re.split(r"(?m)^---$", text):
        if part.lstrip().startswith("{"):
            found = json.loads(part)
        elif match := re.search(r"(?m)^kind: (\S+)", part):
            metadata = re.search(r"(?m)^metadata:(.*\n(?: +.*\n?)*)", part)[1]
            names = dict(re.findall(r"(?m)(?:^  |[{ ])(name|namespace): ([\w.-]+)", metadata))
            found = {"kind": match[1], "metadata": names, "text": part.strip()}
            values = re.findall(r'(?m)^  ([\w.-]+): (".*")$', part.partition("\ndata:")[2])
            found["data"] = {key: json.loads(value) for key, value in values}
            fixed = re.findall(r"(?m)^(provisioner|parameters|mountOptions): (.+)$", part)
            found.update(
                {key: json.loads(value) if value[0] in "[{" else value for key, value in fixed}
            )
        else:
            continue
        for item in found.get("items", [found]):
            meta = item["metadata"]
            yield key_of(kind_of(item["kind"]), meta.get("namespace"), meta["name"]), item


def placed(key, item):
    """Return an object with the namespace that it is kept under, as an API server tells it."""
    namespace = key.split("/")[1]
    metadata = dict(item["metadata"], **({"namespace": namespace} if namespace else {}))
    return dict(item, metadata=metadata)


class Call:
    """One call: its flags, its words, and the objects."""

    def __init__(self, argv, objects):
        words = [argv[n] for n in range(len(argv)) if argv[n] != "-o"]
        short = [argv[n + 1] for n in range(len(argv)) if argv[n] == "-o"]
        self.words = [word for word in words if not word.startswith("-") and word not in short]
        pairs = [word[2:].partition("=") for word in words if word.startswith("--")]
        self.flags = {name: value for name, _, value in pairs}
        self.output = short[0] if short else self.flags.get("output", "")
        self.objects = objects
        self.namespace = self.flags.get("namespace")

    def named(self):
        """Yield the keys that the words name: ``kind name...`` or ``kind/name...``."""
        rest = self.words[1:]
        if rest and "/" in rest[0]:
            pairs = [word.split("/") for word in rest if "/" in word]
        else:
            pairs = [(rest[0], name) for name in rest[1:] if "=" not in name] if rest else []
        for kind, name in pairs:
            yield key_of(kind_of(kind), self.namespace, name)

    def pods(self):
        """Return the pods: those that were made, and one of each DaemonSet on each node."""
        nodes = [
            item["metadata"]["name"] for key, item in self.objects.items() if key[:5] == "node/"
        ]
        found = [
            dict(item, status={"phase": "Succeeded"})
            for key, item in self.objects.items()
            if key.startswith(f"pod/{self.namespace}/")
        ]
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        for key in self.objects:
            if key.startswith(f"daemonset/{self.namespace}/"):
                found += [
                    {"metadata": {"name": f"x-{node}"}, "spec": {"nodeName": node}, "status": ready}
                    for node in nodes
                ]
        return found

    def listed(self):
        """Yield the objects of some kinds, in the namespace that was named, with its labels."""
        kinds = {kind_of(word) for word in self.words[1].split(",")}
        if kinds == {"pod"}:
            yield from self.pods()
            return
        labels = [pair.split("=") for pair in self.flags.get("selector", "").split(",") if pair]
        for key, item in self.objects.items():
            kind, namespace, _ = key.split("/")
            held = item["metadata"].get("labels") or {}
            here = not self.namespace or namespace in ("", self.namespace)
            if kind in kinds and here and all(held.get(name) == value for name, value in labels):
                yield item

    def create(self):
        """Print a file's objects; nothing is made, as with --dry-run=client."""
        for key, item in documents(self.flags["filename"]):
            say(json.dumps(placed(key, {"apiVersion": "v1", **item})))
        return 0

    def get(self):
        """Print what is asked for."""
        if "filename" in self.flags:
            keys = [key for key, _ in documents(self.flags["filename"])]
        else:
            keys = list(self.named())
        if not keys and len(self.words) > 1:
            say(json.dumps({"items": list(self.listed())}))
            return 0
        found = {key: self.objects[key] for key in keys if key in self.objects}
        if self.output == "name":
            say("\n".join(f"{key.split('/')[0]}/{key.split('/')[2]}" for key in found))
        elif len(keys) == 1:
            for key, item in found.items():
                say(json.dumps({"spec": {"selector": {}}, **placed(key, item)}))
        else:
            items = [placed(key, item) for key, item in found.items()]
            say(json.dumps({"kind": "List", "items": items}))
        return 0

    def diff(self):
        """Print a line for each object that is another; end with 1 where there is one."""
        names = []
        for key, item in documents(self.flags["filename"]):
            if self.objects.get(key, {}).get("text") != item.get("text"):
                names.append(f"+++ /tmp/LIVE/v1.{item['kind']}.{key.split('/', 1)[1]}")
        say("\n".join(names))
        return 1 if names else 0

    def apply(self):
        """Keep the objects of a file; what was noted on them stays."""
        for key, item in documents(self.flags["filename"]):
            notes = self.objects.get(key, {}).get("metadata", {}).get("annotations")
            if notes:
                item["metadata"]["annotations"] = notes
            self.objects[key] = item
        return 0

    def annotate(self):
        """Note something on an object."""
        key = next(self.named())
        notes = self.objects[key]["metadata"].setdefault("annotations", {})
        notes.update(word.split("=", 1) for word in self.words[1:] if "=" in word)
        return 0

    def patch(self):
        """Merge a patch into an object."""
        merge(self.objects[next(self.named())], json.loads(self.flags["patch"]))
        return 0

    def logs(self):
        """Print what a pod of the vendor might say."""
        say("STANDIN: connected")
        return 0

    def delete(self):
        """Forget objects; with a namespace goes what is in it."""
        for key in self.named():
            kind, _, name = key.split("/")
            gone = {key}
            if kind == "namespace":
                gone |= {other for other in self.objects if other.split("/")[1] == name}
            for other in gone:
                self.objects.pop(other, None)
        return 0


def merge(into, more):
    """Merge deeply."""
    for key, value in more.items():
        if isinstance(value, dict):
            merge(into.setdefault(key, {}), value)
        else:
            into[key] = value


def main():
    """Answer one call."""
    STATE.parent.mkdir(exist_ok=True)
    with CALLS.open("a") as log:
        log.write(" ".join(sys.argv[1:]) + "\n")
    if "--raw" in sys.argv:
        say("ok")
        return 0
    call = Call(sys.argv[1:], load())
    verb = call.words[0]
    verbs = ("get", "diff", "apply", "annotate", "patch", "delete", "create", "logs")
    if verb == "rollout":
        return 0
    if verb not in verbs:
        raise SystemExit(f"this STANDIN for kubectl knows no {verb}")
    code = getattr(call, verb)()
    STATE.write_text(json.dumps(call.objects, indent=1))
    return code


raise SystemExit(main())
