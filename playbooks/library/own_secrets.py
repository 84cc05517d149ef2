#!/usr/bin/python
"""Ansible module: none of a vendor's well-known secrets is in force in a Helm release."""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import re
import tarfile
import tempfile
import zlib
from pathlib import Path

from ansible.module_utils.appliance_helm import Releases
from ansible.module_utils.appliance_kubectl import ARGUMENTS, Kubectl, KubectlError
from ansible.module_utils.appliance_programs import run
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: own_secrets
short_description: Replace the vendor's well-known secrets by the site's own
description:
  - Lets helm itself say which values a chart would be installed with, and writes a file of values
    that replaces each known default by the site's own secret. A place that the chart does not have,
    or that has another value already, is left alone.
  - Where the release is there already, only what it already has from the site is written again. A
    database keeps the password that it was made with, so a default in force stays in force, and
    its place is noted on the release for the health check.
  - Tells and notes places, never values.
options:
  name: {description: Name of the release, type: str, required: true}
  namespace: {description: Namespace of the release, type: str, required: true}
  chart: {description: The packed chart on this node, type: path, required: true}
  values_files:
    description: Files of values on this node, in helm's order.
    type: list
    elements: path
    default: []
  known:
    description: Places, the vendor's values there, and which secret comes instead.
    type: list
    elements: dict
    required: true
    suboptions:
      path: {description: "Keys, joined by dots", type: str, required: true}
      known: {description: The vendor's values, type: list, elements: str, required: true}
      secret: {description: Name of the secret, type: str, required: true}
      user: {description: Whose password, type: str, default: ""}
  secrets: {description: The site's own by their names as JSON, type: json, required: true}
  path: {description: The file of values to write, type: path, required: true}
  helm: {description: The program, type: path, default: /usr/local/bin/helm}
  kubeconfig: {description: Whose rights are used, type: path, default: /etc/kubernetes/admin.conf}
  kubectl: {description: The program, type: path, default: /usr/local/bin/kubectl}
  patience_seconds: {description: How long an unready server is waited for, type: int, default: 60}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Replace the vendor's well-known secrets
  own_secrets:
    name: runai-backend
    namespace: runai-backend
    chart: /var/lib/appliance/runai/runai-backend-2.7.14.tgz
    known: [{path: backend.secret.jwtSecret, known: [jwt_secret], secret: jwt}]
    secrets: "{{ {'jwt': vault_runai_jwt_secret} | to_json }}"
    path: /etc/appliance/runai/runai-backend-own.yaml
"""

RETURN = r"""
replaced: {description: The places that have the site's own secret, type: list, returned: success}
in_force: {description: The places that have the vendor's, type: list, returned: success}
"""

ANNOTATION = "appliance.dev/vendor-defaults"
TEMPLATE = b"values: {{ .Values | toJson | b64enc }}\n"
HELM_SECONDS = 120
# Charts packed in one another.
DEEPEST = 5


class HelmError(Exception):
    """helm did not say which values it would use."""


def names_only(chart, template=TEMPLATE, depth=0):
    """Return a packed chart with the values of another and one template, which prints them.

    Args:
        chart: the content of the other one.
        template: the template; empty in the charts that it has packed inside.
        depth: how many charts this one is inside.

    Raises:
        HelmError: more of them are in one another than helm's charts have.
    """
    if depth > DEEPEST:
        raise HelmError("the chart has charts in one another more than %d deep" % DEEPEST)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as new:
        for name, content in _kept(chart, template, depth):
            _add(new, name, content)
    return packed.getvalue()


def _kept(chart, template, depth):
    """Yield (name, content) of all but templates and definitions, and of the one template."""
    with tarfile.open(fileobj=io.BytesIO(chart)) as old:
        top = None
        for member in old:
            words = member.name.split("/")
            top = top or words[0]
            if not member.isfile() or {"templates", "crds"} & set(words[:-1]):
                continue
            content = old.extractfile(member).read()
            if "charts" in words[-2:-1] and member.name.endswith(".tgz"):
                content = names_only(content, b"", depth + 1)
            yield member.name, content
        if template:
            yield "%s/templates/values.yaml" % top, template


def _add(archive, name, content):
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


def would_be(want, run):
    """Return the values that helm would install with, as helm merges them.

    Raises:
        HelmError: it refuses them.
    """
    with tempfile.TemporaryDirectory(prefix="appliance-") as folder:
        chart = Path(folder, "values.tgz")
        chart.write_bytes(names_only(Path(want["chart"]).read_bytes()))
        argv = [want["helm"], "template", want["name"], str(chart)]
        argv += ["--values=%s" % path for path in want["values_files"]]
        rc, out, _ = run(argv, seconds=HELM_SECONDS)
    found = re.search(r"(?m)^values: (\S+)$", out)
    if rc != 0 or found is None:
        raise HelmError("helm template %s ended with %d: it does not take the values" % (
            want["chart"], rc))  # fmt: skip
    return json.loads(base64.b64decode(found.group(1)))


def recorded(data):
    """Return the values of a release, as helm keeps them: the chart's, the given ones over them."""
    document = json.loads(gzip.decompress(base64.b64decode(base64.b64decode(data))))
    return merged((document.get("chart") or {}).get("values") or {}, document.get("config") or {})


def merged(base, more):
    """Merge deeply; lists and plain values of ``more`` replace those of ``base``."""
    found = dict(base)
    for key, value in more.items():
        both = isinstance(found.get(key), dict) and isinstance(value, dict)
        found[key] = merged(found[key], value) if both else value
    return found


def at(values, path):
    """Return what stands at a place, or None."""
    for key in path.split("."):
        values = values.get(key) if isinstance(values, dict) else None
    return values


def nested(path, value):
    """Return values with one place."""
    for key in reversed(path.split(".")):
        value = {key: value}
    return value


def _in_text(user):
    """The password of a user in a block of YAML text: the line after the e-mail's."""
    return re.compile(r"(\bemail:\s*[\"']?%s[\"']?\s*\n\s*password:\s*)(\S+)" % re.escape(user))


def password_of(described, user):
    """Return the password that a description of users gives one, in any of its known forms."""
    if isinstance(described, str):
        found = _in_text(user).search(described)
        return found.group(2).strip("\"'") if found else None
    if not isinstance(described, dict):
        return None
    admin, users = described.get("admin"), described.get("users")
    if isinstance(admin, dict) and admin.get("email") == user:
        return admin.get("password")
    if isinstance(users, dict) and user in users:
        return users[user]
    if isinstance(users, list):
        for one in users:
            if isinstance(one, dict) and one.get("email") == user:
                return one.get("password")
    return admin if isinstance(admin, str) and user.startswith("admin@") else None


def with_password(described, user, password):
    """Return the description with another password for one user."""
    if isinstance(described, str):
        return _in_text(user).sub(lambda m: m.group(1) + json.dumps(password), described)
    found = dict(described)
    admin, users = found.get("admin"), found.get("users")
    if isinstance(admin, dict) and admin.get("email") == user:
        found["admin"] = dict(admin, password=password)
    elif isinstance(users, dict) and user in users:
        found["users"] = dict(users, **{user: password})
    elif isinstance(users, list) and any(_is(one, user) for one in users):
        found["users"] = [dict(one, password=password) if _is(one, user) else one for one in users]
    else:
        found["admin"] = password
    return found


def _is(one, user):
    return isinstance(one, dict) and one.get("email") == user


def current(values, row):
    """Return the secret that stands at a place, as text, or None."""
    found = at(values, row["path"])
    found = password_of(found, row["user"]) if row["user"] else found
    return str(found) if isinstance(found, (str, int)) and not isinstance(found, bool) else None


def place(row):
    """Return the name of a place, for people."""
    return "%s (%s)" % (row["path"], row["user"]) if row["user"] else row["path"]


def incomplete(values, rows):
    """Return the secrets of several places that a chart does not have all with the vendor's value.

    A server and its clients share one: with a place under a key that nobody knows, a new password
    on one side would shut out the other.
    """
    known = {}
    for row in rows:
        known.setdefault(row["secret"], []).append(current(values, row) in row["known"])
    return {secret for secret, places in known.items() if any(places) and not all(places)}


def secrets_in(text):
    """Return the site's own secrets; one may stand in the vault as a block, with a line's end."""
    return {name: (secret or "").rstrip("\n") for name, secret in json.loads(text).items()}


def overlay(values, rows, secrets, ours_only):
    """Return (values to lay over, the places in them).

    ``ours_only``: the release is there, so what it has is given again, whatever the vault says
    now: without it, helm would put the chart's own value into force.
    """
    found, places = {}, []
    halves = set() if ours_only else incomplete(values, rows)
    for row in rows:
        now = current(values, row)
        is_known = now in row["known"]
        secret = now if ours_only else secrets.get(row["secret"]) or ""
        if not secret or now is None or is_known == ours_only or row["secret"] in halves:
            continue
        new = secret
        if row["user"]:
            described = at(found, row["path"]) or at(values, row["path"])
            new = with_password(described, row["user"], secret)
        found = merged(found, nested(row["path"], new))
        places.append(place(row))
    return found, places


def in_force(values, rows):
    """Return the places at which the vendor's own value stands."""
    return [place(row) for row in rows if current(values, row) in row["known"]]


def write(path, values):
    """Write a file that only root reads; return whether it was another one before."""
    content = (json.dumps(values, sort_keys=True) + "\n").encode()
    if path.exists() and path.read_bytes() == content:
        return False
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    handle = os.open(str(new), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as stream:
        stream.write(content)
    new.replace(path)
    return True


def note(kubectl, namespace, secret, places):
    """Write on a revision which places have the vendor's secrets; return whether that was new."""
    text = json.dumps(sorted(places))
    notes = secret["metadata"].get("annotations") or {}
    if notes.get(ANNOTATION) == text:
        return False
    name, pair = secret["metadata"]["name"], "%s=%s" % (ANNOTATION, text)
    kubectl.call(["--namespace=" + namespace, "annotate", "--overwrite", "secret", name, pair])
    return True


def converge(want, kubectl, run):
    """Return (changed, places with the site's own, places with the vendor's)."""
    latest = Releases(kubectl, want["namespace"], want["name"]).latest()
    if latest is None:
        values, replaced = overlay(would_be(want, run), want["known"], want["secrets"], False)
        return write(Path(want["path"]), values), replaced, []
    secret = kubectl.get("--namespace=" + want["namespace"], "secret", latest.secret)
    has = recorded(secret["data"]["release"])
    values, replaced = overlay(has, want["known"], want["secrets"], True)
    left = in_force(has, want["known"])
    noted = note(kubectl, want["namespace"], secret, left)
    return write(Path(want["path"]), values) or noted, replaced, left


# zlib and EOF: of an archive, or of helm's record, that is cut off.
UNREADABLE = (
    *(HelmError, KubectlError, OSError, ValueError, LookupError),
    *(tarfile.TarError, zlib.error, EOFError, RecursionError),
)


def main():
    """Run the module."""
    row = {
        "path": {"type": "str", "required": True},
        "known": {"type": "list", "elements": "str", "required": True},
        "secret": {"type": "str", "required": True, "no_log": False},
        "user": {"type": "str", "default": ""},
    }
    module = AnsibleModule(
        argument_spec=dict(
            ARGUMENTS,
            name={"type": "str", "required": True},
            namespace={"type": "str", "required": True},
            chart={"type": "path", "required": True},
            values_files={"type": "list", "elements": "path", "default": []},
            known={"type": "list", "elements": "dict", "required": True, "options": row},
            secrets={"type": "json", "required": True, "no_log": True},
            path={"type": "path", "required": True},
            helm={"type": "path", "default": "/usr/local/bin/helm"},
        ),
        supports_check_mode=True,
    )
    if module.check_mode:
        module.exit_json(changed=not Path(module.params["path"]).exists(), replaced=[], in_force=[])
    try:
        want = dict(module.params, secrets=secrets_in(module.params["secrets"]))
        changed, replaced, left = converge(want, Kubectl.of(module), run)
    except UNREADABLE as error:
        module.fail_json(msg="release %s: %s" % (module.params["name"], error))
    module.exit_json(changed=changed, replaced=replaced, in_force=left)


if __name__ == "__main__":
    main()
