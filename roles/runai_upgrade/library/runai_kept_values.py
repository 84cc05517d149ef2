#!/usr/bin/python
"""Ansible module: the values of a release that an upgrade keeps lie over those of the new version.

The content of values is never told: of a difference only the place is, and short plain values
whose place does not sound like a secret.
"""

from __future__ import annotations

import base64
import io
import json
import re
import tarfile
import tempfile
from pathlib import Path

from ansible.module_utils import runai_upgrade_record as records
from ansible.module_utils.appliance_files import write
from ansible.module_utils.appliance_programs import run
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.runai_upgrade_record import UpgradeError

DOCUMENTATION = r"""
module: runai_kept_values
short_description: Write the values that an upgrade of Run:ai keeps
description:
  - Compares the values that a release had (C(helm get values), saved before) with those that the
    new version's C(runai-adm) wrote. A value that was there wins over the new one. New keys stay.
  - Left out is what the site's files, the vault, or the file of own secrets give, because these lie
    over all others. Where the new value is an address or name of the site, the new one wins.
  - The new value wins as well where one of the two is a group of keys and the other is none, and
    for the backend's certificate and key. Where such a value says where data is, it fails instead.
  - Each difference is noted in the record of the upgrade, without secrets.
options:
  release: {description: Name of the release, type: str, required: true}
  saved: {description: File of the values that it had (JSON), type: path, required: true}
  generated: {description: File of the values of the new version, type: path, required: true}
  own: {description: File of the site's own secrets (JSON), type: path, required: true}
  values: {description: Values of the site's files as one JSON text, type: json}
  secret_values: {description: Values of the vault as one JSON text, type: json}
  inputs:
    description: Names and addresses of the site, which the new version writes in its own way.
    type: list
    elements: str
    default: []
  path: {description: The file to write (mode 0600), type: path, required: true}
  folder: {description: Where the file before is kept, type: path, required: true}
  helm: {description: The program, type: path, default: /usr/local/bin/helm}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Keep the values of the backend
  runai_kept_values:
    release: runai-backend
    saved: /var/lib/appliance/runai/before-2.8.12-3/runai-backend-values.json
    generated: /etc/appliance/runai/runai-backend-values.yaml
    own: /etc/appliance/runai/runai-backend-own.yaml
    path: /etc/appliance/runai/runai-backend-kept.yaml
    folder: /var/lib/appliance/runai/before-2.8.12-3
"""

RETURN = r"""
differences: {description: One line for each, without secrets, type: list, returned: success}
"""

SECRETIVE = re.compile(
    r"pass|pw|secret|key|token|crt|cert|auth|cred|user|tenant|salt|cookie|license|dsn|hook|conn",
    re.I,
)
# Whatever its place is called: a URL with a login, or what a generator of secrets makes.
SECRET = re.compile(r"://[^/]*@|^(?=.*\d)(?=.*[A-Za-z])[A-Za-z0-9+/=_]{12,}$")
# A value that gives way here may leave a database behind, and begin an empty one.
OF_DATA = re.compile(r"persist|storage|volume|claim|nfs|postgres|database", re.I)
LONGEST_SHOWN = 60
MOST_LINES = 200
CHART = b"apiVersion: v2\nname: values\nversion: 0.0.1\n"
TEMPLATE = b"values: {{ .Values | toJson | b64enc }}\n"
HELM_SECONDS = 60
NONE = object()
# The backend's certificate and key: runai-adm writes those of the site, which change with time.
RENEWED = (("backend", "https", "crt"), ("backend", "https", "key"))


def read_yaml(path, helm, run):
    """Return the values of a YAML file, as helm reads them: nodes have no parser of YAML.

    Raises:
        UpgradeError: helm does not take them.
    """
    with tempfile.TemporaryDirectory(prefix="appliance-") as folder:
        chart = Path(folder, "values.tgz")
        with tarfile.open(str(chart), mode="w:gz") as packed:
            for name, content in (("Chart.yaml", CHART), ("templates/values.yaml", TEMPLATE)):
                entry = tarfile.TarInfo("values/" + name)
                entry.size = len(content)
                packed.addfile(entry, io.BytesIO(content))
        argv = [helm, "template", "values", str(chart), "--values=%s" % path]
        rc, out, _ = run(argv, seconds=HELM_SECONDS)
    found = re.search(r"(?m)^values: (\S+)$", out)
    if rc != 0 or found is None:
        raise UpgradeError("helm does not take the values of %s" % path)
    return json.loads(base64.b64decode(found.group(1)))


def leaves(values, path=()):
    """Yield (path, value) of everything that is no group of keys; an empty group is a value."""
    for key, value in sorted(values.items()):
        if isinstance(value, dict) and value:
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key), value


def at(values, path):
    """Return what stands at a path, or NONE."""
    for key in path:
        if not isinstance(values, dict) or key not in values:
            return NONE
        values = values[key]
    return values


def is_given(values, path):
    """Return whether values give the place of a path, or a value instead of a group above it."""
    for length in range(1, len(path) + 1):
        found = at(values, path[:length])
        if found is NONE:
            return False
        if not isinstance(found, dict):
            return True
    return True


def form_differs(generated, path):
    """Return whether the new version has a value where a group was, or a group for a value."""
    above = [at(generated, path[:length]) for length in range(1, len(path))]
    if any(found is not NONE and not isinstance(found, dict) for found in above):
        return True
    there = at(generated, path)
    return isinstance(there, dict) and bool(there)


def mentions(value, inputs):
    """Return whether a value is made of the site's names and addresses."""
    if isinstance(value, list):
        return bool(value) and all(mentions(one, inputs) for one in value)
    return isinstance(value, str) and value in inputs


def shown(path, value):
    """Return a value for people, or that it is hidden."""
    if value is NONE:
        return "none"
    if isinstance(value, bool) or value is None or value in ("", {}, []):
        return json.dumps(value)
    text = json.dumps(value, sort_keys=True)
    plain = isinstance(value, (int, float)) or (
        isinstance(value, str) and "\n" not in value and not SECRET.search(value)
    )
    if not plain or len(text) > LONGEST_SHOWN or any(SECRETIVE.search(key) for key in path):
        return "(hidden)"
    return text


def place(path):
    """Return a path for people, without what a terminal would act on."""
    text = ".".join(str(key) for key in path)
    return "".join(c if c.isprintable() else "?" for c in text)[:200]


def nested(path, value):
    """Return values with one place."""
    for key in reversed(path):
        value = {key: value}
    return value


def merged(base, more):
    """Merge deeply; lists and plain values of ``more`` replace those of ``base``."""
    found = dict(base)
    for key, value in more.items():
        both = isinstance(found.get(key), dict) and isinstance(value, dict)
        found[key] = merged(found[key], value) if both else value
    return found


def require_no_data(path):
    """Refuse to drop a value that says where data is.

    Raises:
        UpgradeError: it does.
    """
    if any(OF_DATA.search(str(key)) for key in path):
        raise UpgradeError(
            "%s says where data is, and the new version has another form there. Say it in the new "
            "form, in runai.values in site.yml (of the cluster part: runai.cluster_values), then "
            "run the same command again" % place(path)
        )


def compare(saved, generated, given, inputs):
    """Return (the values to keep, one line for each difference).

    Args:
        saved: what the release had.
        generated: what the new version's program wrote.
        given: what lies over both anyway.
        inputs: names and addresses of the site.

    Raises:
        UpgradeError: a value that says where data is would give way to the new version's.
    """
    kept, lines = {}, []
    for path, old in leaves(saved):
        new = at(generated, path)
        renewed = path in RENEWED and new is not NONE
        if new == old or renewed or is_given(given, path):
            continue
        told = "%s: %s" % (place(path), shown(path, old))
        if form_differs(generated, path):
            require_no_data(path)
            lines.append("%s is dropped: the new version has another form there" % place(path))
        elif mentions(new, inputs):
            lines.append("%s becomes %s" % (told, shown(path, new)))
        else:
            kept = merged(kept, nested(path, old))
            lines.append("%s is kept; the new version's: %s" % (told, shown(path, new)))
    lines += [
        "%s: %s is new" % (place(path), shown(path, new))
        for path, new in leaves(generated)
        if at(saved, path) is NONE and not is_given(given, path)
    ]
    return kept, lines


def note(release, lines):
    """Put the lines of one release into the record."""
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], "and %d more" % (len(lines) - MOST_LINES)]
    others = [
        line
        for line in records.read().get("differences") or []
        if not line.startswith(release + ": ")
    ]
    found = [*others, *("%s: %s" % (release, line) for line in lines)]
    # In one order, whichever release was compared last: a second run changes nothing.
    return records.update({"differences": sorted(found, key=lambda line: line.split(":")[0])})


def put(path, kept, before):
    """Write the kept values; what was there before is saved once. Return whether it was other."""
    content = json.dumps(kept, sort_keys=True) + "\n"
    if path.exists() and path.read_text() == content:
        return False
    if not before.exists():
        # Empty: there was none. What a second merge finds is of the first one.
        write(before, path.read_bytes() if path.exists() else b"", 0o600)
    write(path, content, 0o600)
    return True


def read_json(path):
    """Return a mapping from a JSON file; empty when there is none."""
    found = json.loads(path.read_text()) if path.exists() else {}
    return found if isinstance(found, dict) else {}


def converge(want, run):
    """Write what is kept; return (whether anything changed, the lines)."""
    given = read_json(Path(want["own"]))
    for text in (want["values"], want["secret_values"]):
        given = merged(given, json.loads(text or "{}"))
    generated = read_yaml(want["generated"], want["helm"], run)
    kept, lines = compare(read_json(Path(want["saved"])), generated, given, want["inputs"])
    before = Path(want["folder"]) / (want["release"] + "-kept-before.json")
    changed = put(Path(want["path"]), kept, before)
    return note(want["release"], lines) or changed, lines


def main():
    """Run the module."""
    path = {"type": "path", "required": True}
    module = AnsibleModule(
        argument_spec={
            "release": {"type": "str", "required": True},
            "saved": path,
            "generated": path,
            "own": path,
            "values": {"type": "json", "no_log": True},
            "secret_values": {"type": "json", "no_log": True},
            "inputs": {"type": "list", "elements": "str", "default": []},
            "path": path,
            "folder": path,
            "helm": {"type": "path", "default": "/usr/local/bin/helm"},
        },
        supports_check_mode=True,
    )
    if module.check_mode:
        module.exit_json(changed=True, differences=[])
    try:
        changed, lines = converge(module.params, run)
    except (OSError, UpgradeError, ValueError) as error:
        module.fail_json(msg="release %s: %s" % (module.params["release"], error))
    module.exit_json(changed=changed, differences=lines)


if __name__ == "__main__":
    main()
