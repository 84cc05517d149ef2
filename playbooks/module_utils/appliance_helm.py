"""Read Helm's own record of a release: the secrets that it keeps, one for each revision.

What a revision was made from is noted on its secret, because Helm keeps neither digest. Python 3.8,
standard library. What must not be here: running helm.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import tarfile
import tempfile

from ansible.module_utils.appliance_kubectl import KubectlError

CHART_ANNOTATION = "appliance.dev/chart-sha256"
VALUES_ANNOTATION = "appliance.dev/values-sha256"
# Of the site's own values alone, so that a plan can compare them without any secret.
SITE_VALUES_ANNOTATION = "appliance.dev/site-values-sha256"
# Of what else the site says, and of the certificate that went into it: for the same plan.
ORIGIN_ANNOTATION = "appliance.dev/origin-sha256"
CERTIFICATE_ANNOTATION = "appliance.dev/certificate-sha256"
ANNOTATIONS = {
    "chart": CHART_ANNOTATION,
    "values": VALUES_ANNOTATION,
    "site values": SITE_VALUES_ANNOTATION,
    "origin": ORIGIN_ANNOTATION,
    "certificate": CERTIFICATE_ANNOTATION,
}


def digest_of_values(values):
    """Return the sha256 of values, whatever the order of their keys."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def definitions_of(chart):
    """Return the YAML of the crds folders of a packed chart and of the charts inside it."""
    texts = []
    with tarfile.open(str(chart)) as archive:
        for member in archive:
            words = member.name.split("/")
            if member.isfile() and "crds" in words[:-1] and words[-1].endswith((".yaml", ".yml")):
                texts.append(archive.extractfile(member).read().decode())
    return "\n---\n".join(texts)


def objects_in(text):
    """Return the objects that kubectl printed as JSON: one after the other, or as one list."""
    decoder, rest, found = json.JSONDecoder(), text.strip(), []
    while rest:
        one, end = decoder.raw_decode(rest)
        found += one["items"] if one.get("kind") == "List" else [one]
        rest = rest[end:].lstrip()
    return found


def identity(item):
    """Return kind, namespace and name of an object; None for the namespace of what has none."""
    metadata = item["metadata"]
    return item["kind"], metadata.get("namespace"), metadata["name"]


class Revision:
    """One revision of a release, as its secret tells it."""

    def __init__(self, secret):
        metadata = secret["metadata"]
        labels, notes = metadata.get("labels", {}), metadata.get("annotations") or {}
        self.secret = metadata["name"]
        self.revision = int(labels["version"])
        self.status = labels["status"]
        self.digests = {what: notes.get(key) for what, key in ANNOTATIONS.items()}
        self._data = secret.get("data", {}).get("release", "")

    def manifest(self):
        """Return the YAML of the objects that this revision is made of."""
        packed = base64.b64decode(base64.b64decode(self._data))
        return json.loads(gzip.decompress(packed).decode())["manifest"]


class Releases:
    """The revisions of one release."""

    def __init__(self, kubectl, namespace, name):
        self._kubectl = kubectl
        self._release_namespace = namespace
        self._namespace = "--namespace=" + namespace
        self._name = name

    def all(self):
        """Return every revision, oldest first."""
        selector = "--selector=owner=helm,name=" + self._name
        found = self._kubectl.get(self._namespace, "secrets", selector)
        items = [Revision(item) for item in (found or {}).get("items", [])]
        return sorted(items, key=lambda item: item.revision)

    def latest(self):
        """Return the newest revision, or None."""
        found = self.all()
        return found[-1] if found else None

    def pending(self):
        """Return the revisions that a helm began and did not end."""
        return [item for item in self.all() if item.status.startswith("pending-")]

    def remove(self, revision):
        """Take a revision away; the objects that it made stay."""
        self._kubectl.call(
            [self._namespace, "delete", "--ignore-not-found", "secret", revision.secret]
        )

    def note(self, revision, digests):
        """Write on a revision what it was made from."""
        pairs = ["%s=%s" % (ANNOTATIONS[what], digest) for what, digest in sorted(digests.items())]
        self._kubectl.call(
            [self._namespace, "annotate", "--overwrite", "secret", revision.secret, *pairs]
        )

    def missing_objects(self, revision):
        """Return the objects of a revision's manifest that do not exist, as kind/name.

        With a flag for the release's namespace, kubectl refuses every object that names another
        one. Without it, kubectl shows the namespace default where the manifest names none; helm
        puts that object into the release's. So what names default itself always counts as missing.
        """
        try:
            wanted = self._objects(["create", "--dry-run=client"], revision.manifest())
            for item in wanted:
                if item["metadata"].get("namespace") == "default":
                    item["metadata"]["namespace"] = self._release_namespace
            asked = json.dumps({"apiVersion": "v1", "kind": "List", "items": wanted})
            found = self._objects(["get", "--ignore-not-found"], asked)
        except KubectlError as error:
            # A kind that the API does not know any more: its definition is gone.
            return [str(error)]
        there = {identity(item) for item in found}
        missing = [identity(item) for item in wanted if identity(item) not in there]
        return ["%s/%s" % (kind.lower(), name) for kind, _, name in missing]

    def bring_definitions(self, chart):
        """Apply the definitions that a chart brings: helm does so at the first install only."""
        text = definitions_of(chart)
        if not text:
            return
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(text)
            file.flush()
            self._kubectl.call(
                ["apply", "--server-side", "--force-conflicts", "--filename=" + file.name]
            )

    def _objects(self, arguments, text):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(text)
            file.flush()
            argv = [*arguments, "--output=json", "--filename=" + file.name]
            _, out = self._kubectl.call(argv)
        return objects_in(out)
