#!/usr/bin/python
"""Ansible module: a Helm release is what a chart and values make; run on a control-plane node."""

from __future__ import annotations

import hashlib
import json
import os
import re
import ssl
import sys
import tempfile
from pathlib import Path

from ansible.module_utils.appliance_helm import Releases, digest_of_values
from ansible.module_utils.appliance_job import JobError, NodeJob, explain
from ansible.module_utils.appliance_kubectl import ARGUMENTS, Kubectl, KubectlError
from ansible.module_utils.appliance_programs import run
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: helm_release
short_description: Install or upgrade a Helm release when it is another
description:
  - Does nothing when the newest revision is deployed from the same chart (by its sha256) with the
    same values (by theirs), and every object of its manifest exists. What it was made from is kept
    as annotations of the revision's own secret.
  - The digest of C(values) alone is kept, too, for who plans and sees neither secrets nor files.
    Where only that note is absent or another (an earlier version's release, a value that moved to
    the secret ones), all that helm would be given is the same, so it is written and helm rests.
  - Else runs C(helm upgrade --install) as the transient unit C(appliance-helm-<name>.service), or
    attaches to the one that runs the same (see C(node_job)), so a control process that is killed
    leaves no second copy.
  - An upgrade also brings the chart's definitions (C(crds/)), which helm leaves alone then.
  - A revision that was left pending by a helm that died is taken away first; helm would refuse for
    ever. Objects that it made already are taken over by the next.
  - Values go by a file of mode 0600 that is removed afterwards, never by arguments.
  - Does not wait for what the chart starts, unless C(wait) says so; see to that with better words.
options:
  name: {description: Name of the release, type: str, required: true}
  namespace: {description: Namespace of the release, type: str, required: true}
  chart: {description: The packed chart on this node, type: path, required: true}
  values:
    description:
      - Values beside the chart's own, as one JSON text (C(to_json)). Of a dictionary each value
        would be a secret by itself, and words like C(docker) and C(1) masked in what is told.
    type: json
  secret_values:
    description:
      - Values of the vault, as one JSON text, merged over C(values). Each text of eight characters
        and more among them is masked in what is told.
    type: json
  values_files:
    description: Files of values on this node, which come before C(values), so that those win.
    type: list
    elements: path
    default: []
  origin:
    description:
      - What else of the site the release is made from, as one JSON text. It is only noted.
    type: json
  certificate:
    description: A certificate (PEM file) that is among the values. Its fingerprint is only noted.
    type: path
  create_namespace: {description: Make the namespace where it is absent, type: bool, default: true}
  wait: {description: Wait until what the chart starts is ready, type: bool, default: false}
  timeout_seconds: {description: How long helm may take, type: int, default: 600}
  helm: {description: The program, type: path, default: /usr/local/bin/helm}
  kubeconfig: {description: Whose rights are used, type: path, default: /etc/kubernetes/admin.conf}
  kubectl: {description: The program, type: path, default: /usr/local/bin/kubectl}
  patience_seconds: {description: How long an unready server is waited for, type: int, default: 60}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Bring the GPU Operator
  helm_release:
    name: gpu-operator
    namespace: gpu-operator
    chart: /var/lib/appliance/charts/gpu-operator.tgz
    values: "{{ gpu_operator_values | to_json }}"
"""

RETURN = r"""
reason: {description: Why something was done, or empty, type: str, returned: always}
revision: {description: The newest revision now, type: int, returned: always}
removed: {description: Revisions that a helm which died had left, type: list, returned: always}
"""

FOLDER = "/var/lib/appliance/helm"
SHORTEST = 8
VALUES = ("values", "secret_values", "origin")


def file_sha256(path):
    """Return the sha256 of a file."""
    found = hashlib.sha256()
    with Path(path).open("rb") as stream:
        for piece in iter(lambda: stream.read(1 << 20), b""):
            found.update(piece)
    return found.hexdigest()


def read_values(text):
    """Return the values of a JSON text, which may be absent; never tell what is in it.

    Raises:
        ValueError: it is no mapping.
    """
    try:
        found = json.loads(text or "{}")
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ValueError("its values are no mapping in JSON")
    return found


def why(latest, releases, digests):
    """Return why helm must run, or an empty string."""
    if latest is None:
        return "there is no such release"
    if latest.status != "deployed":
        return "its revision %d is %s" % (latest.revision, latest.status)
    for what, wanted in sorted(digests.items()):
        if latest.digests.get(what) != wanted:
            return "it was made from another %s" % what
    missing = releases.missing_objects(latest)
    if missing:
        return "%d of its objects do not exist, first %s" % (len(missing), missing[0])
    return ""


def write_values(name, values, digest):
    """Write the values where only root reads them; the name tells one set from another."""
    folder = Path(FOLDER)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # A run that was killed left its file; helm reads it when it starts, and never again.
    for old in folder.iterdir():
        if re.fullmatch(re.escape(name) + "-[0-9a-f]{16}[.]json", old.name):
            old.unlink()
    path = folder / ("%s-%s.json" % (name, digest[:16]))
    handle, new = tempfile.mkstemp(dir=FOLDER)
    with os.fdopen(handle, "w") as stream:
        json.dump(values, stream)
    Path(new).chmod(0o600)
    Path(new).replace(path)
    return path


def arguments(want, values_path, chart_sha256):
    """Return helm's argv; the chart's digest makes another chart another command."""
    argv = [
        want["helm"],
        "upgrade",
        "--install",
        want["name"],
        want["chart"],
        "--namespace=" + want["namespace"],
        *("--values=%s" % path for path in want["values_files"]),
        "--values=%s" % values_path,
        "--kubeconfig=" + want["kubeconfig"],
        "--timeout=%ds" % want["timeout_seconds"],
        "--description=chart sha256 " + chart_sha256[:16],
        "--history-max=5",
    ]
    argv += ["--create-namespace"] if want["create_namespace"] else []
    return argv + (["--wait"] if want["wait"] else [])


def merged(base, more):
    """Merge deeply; lists and plain values of ``more`` replace those of ``base``."""
    found = dict(base)
    for key, value in more.items():
        both = isinstance(found.get(key), dict) and isinstance(value, dict)
        found[key] = merged(found[key], value) if both else value
    return found


def texts_in(value):
    """Return the texts in values that are long enough to be masked without masking words."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return {text for inner in value for text in texts_in(inner)}
    return {value} if isinstance(value, str) and len(value) >= SHORTEST else set()


def fingerprint(path):
    """Return the sha256 of the first certificate of a PEM file."""
    found = re.search(
        "-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", Path(path).read_text(), re.DOTALL
    )
    if found is None:
        raise ValueError("%s holds no certificate" % path)
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(found.group())).hexdigest()


def notes_of(want, digests):
    """Return what is noted on the revision: its own digests, and those that a plan compares."""
    found = dict(digests, **{"site values": digest_of_values(want["values"])})
    if want["origin"]:
        found["origin"] = digest_of_values(want["origin"])
    if want["certificate"]:
        found["certificate"] = fingerprint(want["certificate"])
    return found


def all_values(want):
    """Return the values as helm gets them: the site's, and the vault's over them."""
    return merged(want["values"], want["secret_values"])


def values_digest(want):
    """Return the digest of all values: those given, and the files before them."""
    files = [file_sha256(path) for path in want["values_files"]]
    return digest_of_values([*files, all_values(want)] if files else all_values(want))


def clear_of_the_dead(job, releases, want):
    """Wait for a helm that still runs, then take away what one that died left pending."""
    removed = []
    for revision in releases.pending():
        if job.is_running():
            job.wait_until_idle(want["timeout_seconds"] + 60)
            return clear_of_the_dead(job, releases, want)
        releases.remove(revision)
        removed.append(revision.revision)
    return removed


def upgrade(job, want, digests):
    """Run helm; raise JobError with its words when it fails."""
    path = write_values(want["name"], all_values(want), digests["values"])
    ended = False
    try:
        argv = arguments(want, path, digests["chart"])
        result, _ = job.run(argv, {"HELM_NO_PLUGINS": "1"}, "/", want["timeout_seconds"] + 60)
        ended = True
    finally:
        # With a result helm has ended, while its unit may still be on its way out.
        if ended or not job.is_running():
            path.unlink()
    if result["rc"] != 0:
        raise JobError(explain(result))


def is_brought(want):
    """Return whether all files of the release are here; before a first run some are not."""
    files = [want["chart"], *want["values_files"], want["certificate"]]
    return all(Path(file).exists() for file in files if file)


def converge(want, job, releases, check_mode):
    """Return (reason, removed revisions); the reason is empty when nothing had to be done."""
    digests = {"chart": file_sha256(want["chart"]), "values": values_digest(want)}
    notes = notes_of(want, digests)
    removed = [] if check_mode else clear_of_the_dead(job, releases, want)
    reason = why(releases.latest(), releases, digests)
    if reason and not check_mode:
        if releases.latest() is not None:
            releases.bring_definitions(want["chart"])
        upgrade(job, want, digests)
    elif not reason and set(notes.items()) - set(releases.latest().digests.items()):
        reason = "what of the site it was made from was not noted"
    if reason and not check_mode:
        releases.note(releases.latest(), notes)
    return reason, removed


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec=dict(
            ARGUMENTS,
            name={"type": "str", "required": True},
            namespace={"type": "str", "required": True},
            chart={"type": "path", "required": True},
            values={"type": "json", "no_log": True},
            secret_values={"type": "json", "no_log": True},
            values_files={"type": "list", "elements": "path", "default": []},
            origin={"type": "json"},
            certificate={"type": "path"},
            create_namespace={"type": "bool", "default": True},
            wait={"type": "bool", "default": False},
            timeout_seconds={"type": "int", "default": 600},
            helm={"type": "path", "default": "/usr/local/bin/helm"},
        ),
        supports_check_mode=True,
    )
    kubectl = Kubectl.of(module)
    try:
        given = {key: read_values(module.params[key]) for key in VALUES}
    except ValueError as error:
        module.fail_json(msg="release %s: %s" % (module.params["name"], error))
    want = dict(module.params, **given)
    if module.check_mode and not (kubectl.is_possible() and is_brought(want)):
        reason = "no cluster, chart, values or certificate yet"
        module.exit_json(changed=True, reason=reason, revision=0, removed=[])
    module.no_log_values.update(texts_in(want["secret_values"]))
    releases = Releases(kubectl, want["namespace"], want["name"])
    try:
        job = NodeJob("helm-" + want["name"], run, python=sys.executable)
        reason, removed = converge(want, job, releases, module.check_mode)
        latest = releases.latest()
    except (JobError, KubectlError, OSError, ValueError) as error:
        module.fail_json(msg="release %s: %s" % (want["name"], error))
    module.exit_json(
        changed=bool(reason or removed),
        reason=reason,
        revision=latest.revision if latest else 0,
        removed=removed,
    )


if __name__ == "__main__":
    main()
