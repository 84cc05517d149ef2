"""A digest over all objects of a cluster, kind by kind, so that two of them can be compared.

Left out is what a cluster makes anew by itself, and what changes while nobody changes anything.
Python 3.8, standard library. What must not be here: what follows from a difference.
"""

from __future__ import annotations

import hashlib
import json
import sys
import urllib.parse

from ansible.module_utils.appliance_kubectl import Kubectl, KubectlError
from ansible.module_utils.appliance_programs import run

PAGE, MOST_PAGES, CALL_SECONDS = 500, 2000, 60
# Kinds, as RESOURCE.GROUP, that are not compared and not carried to other machines.
NOT_CARRIED = (
    "bindings",
    "certificatesigningrequests.certificates.k8s.io",
    "componentstatuses",
    "controllerrevisions.apps",
    "csinodes.storage.k8s.io",
    "endpoints",
    "endpointslices.discovery.k8s.io",
    "events",
    "events.events.k8s.io",
    "leases.coordination.k8s.io",
    "nodes",
    "pods",
    "volumeattachments.storage.k8s.io",
)
# Groups whose objects live in no etcd.
NO_STORE = ("metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io")
VOLATILE = (
    "creationTimestamp",
    "generation",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
)
TOKEN = "bootstrap.kubernetes.io/token"  # noqa: S105  (a type, no token)


def canonical(item):
    """Return an object without what changes by itself, as text; None where it is not compared."""
    if item.get("type") == TOKEN:
        return None
    kept = {key: value for key, value in item.items() if key != "status"}
    metadata = item.get("metadata") or {}
    kept["metadata"] = {key: value for key, value in metadata.items() if key not in VOLATILE}
    return json.dumps(kept, sort_keys=True, separators=(",", ":"))


def digest_of(items):
    """Return how many objects are compared, and a sha256 over them in the order of their text."""
    texts = sorted(text for text in map(canonical, items) if text is not None)
    digest = hashlib.sha256()
    for text in texts:
        digest.update(hashlib.sha256(text.encode()).digest())
    return {"count": len(texts), "sha256": digest.hexdigest()}


def raw(kubectl, path):
    """Return what the API answers to a path.

    Raises:
        KubectlError, ValueError: it does not, or with no JSON object.
    """
    _, out = kubectl.call(["get", "--raw", path], seconds=CALL_SECONDS)
    found = json.loads(out)
    if not isinstance(found, dict):
        raise ValueError("the API answers %s with no object" % path)
    return found


def kinds(kubectl):
    """Yield (RESOURCE.GROUP, path) of everything that can be listed."""
    places = [("", "/api/v1")]
    for group in raw(kubectl, "/apis").get("groups") or ():
        if group["name"] not in NO_STORE:
            places.append((group["name"], "/apis/" + group["preferredVersion"]["groupVersion"]))
    for group, path in places:
        for resource in raw(kubectl, path).get("resources") or ():
            name = resource["name"]
            if "/" not in name and "list" in (resource.get("verbs") or ()):
                yield (name + "." + group).rstrip("."), "%s/%s" % (path, name)


def listed(kubectl, path):
    """Yield the objects below a path, page by page."""
    token = ""
    for _ in range(MOST_PAGES):
        more = "&continue=" + urllib.parse.quote(token, safe="") if token else ""
        found = raw(kubectl, "%s?limit=%d%s" % (path, PAGE, more))
        for item in found.get("items") or ():
            yield item
        token = (found.get("metadata") or {}).get("continue") or ""
        if not token:
            return
    raise ValueError("%s has more pages than any cluster" % path)


def digests(kubectl):
    """Return the digest of each kind, the kinds that are not compared, and what was not read.

    Raises:
        KubectlError, ValueError, LookupError, TypeError: the API does not list its kinds.
    """
    found, unread = {}, {}
    for kind, path in sorted(kinds(kubectl)):
        if kind in NOT_CARRIED:
            continue
        try:
            found[kind] = digest_of(listed(kubectl, path))
        except (KubectlError, ValueError, LookupError, TypeError) as error:
            unread[kind] = " ".join(str(error).split())[:300]
    return {"kinds": found, "not_carried": list(NOT_CARRIED), "unread": unread}


def main():
    """Print the digests of the cluster of this node's admin.conf, as JSON."""
    kubectl = Kubectl(lambda argv: run(argv, seconds=CALL_SECONDS + 30))
    try:
        json.dump(digests(kubectl), sys.stdout)
    except (KubectlError, ValueError, LookupError, TypeError) as error:
        sys.stderr.write("%s\n" % " ".join(str(error).split()))
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
