#!/usr/bin/python
"""Ansible module: no first password of the vendor logs in, and researchers have to log in."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.runai_backend_api import (
    ARGUMENTS,
    FIRST_PASSWORDS,
    RESEARCHERS,
    BackendError,
    answer,
)

DOCUMENTATION = r"""
module: runai_backend_logins
short_description: Try the vendor's first passwords, and switch on the logins of researchers
description:
  - Tries each published first password. A user whom one of them still logs in is noted.
  - With C(researchers), switches on the tenant's setting I(Researcher Authentication). The key of
    that setting is not public, so the setting is found by its key and label. Where the backend
    lists no such setting, or more than one, nothing is changed, and a person does it.
  - Both results are noted in the ConfigMap C(appliance-cluster), where C(appliance health) reads
    them. A refused login ends nothing; it is noted as work for a person.
options:
  domain: {description: The backend's name, type: str, required: true}
  authority: {description: The CA (PEM file) that vouches for it, type: path, required: true}
  username: {description: Who logs in, type: str, required: true}
  password_path: {description: A file that holds the password alone, type: path, required: true}
  cluster: {description: What the backend calls the cluster, type: str, required: true}
  first_passwords:
    description: The vendor's users, each with the published passwords to try.
    type: list
    elements: dict
    suboptions:
      user: {description: The user's name, type: str, required: true}
      known: {description: The vendor's passwords, type: list, elements: str, required: true}
  researchers:
    description: Whether researchers must log in.
    type: bool
    default: false
  timeout_seconds:
    description: How long the backend may take to answer as it should.
    type: int
    default: 120
  kubeconfig: {description: Whose rights are used, type: path, default: /etc/kubernetes/admin.conf}
  kubectl: {description: The program, type: path, default: /usr/local/bin/kubectl}
  patience_seconds:
    description: How long an API server that is not ready is waited for.
    type: int
    default: 60
notes:
  - "C(GET) and C(PUT /v1/k8s/setting) are called by public scripts of the vendor's field engineers
    and listed in its API reference of 2.18; whether 2.4 to 2.8 answer them is asked at run time."
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Check the logins of the backend
  runai_backend_logins:
    domain: runai.rack.example
    authority: /etc/appliance/ca.crt
    username: test@run.ai
    password_path: /run/appliance/runai-password
    cluster: rack
    first_passwords: [{user: test@run.ai, known: [password]}]
    researchers: true
"""

RETURN = r"""
first_passwords: {description: Users with a first password in force, type: list, returned: success}
researchers: {description: "on, or by-hand; empty: not asked for", type: str, returned: success}
"""

NONE, ON, BY_HAND = "none", "on", "by-hand"


def first_passwords(backend, users):
    """Return (the users whom a published password logs in, whether that is certain of all).

    Raises:
        BackendError: the backend does not answer.
    """
    found, certain = [], True
    for one in users:
        taken = [backend.accepts(one["user"], password) for password in one["known"]]
        if any(taken):
            found.append(one["user"])
        elif None in taken:
            certain = False
    return found, certain


# A setting that opens or waives what the switch asks for, or speaks of authors.
CONTRARY = {"unauth", "allow", "disable", "skip", "anonymous", "author", "without"}


def switch_of(settings):
    """Return the one setting that is the switch; None where it is not certain."""
    found = []
    for one in settings or ():
        words = "%s %s" % (one.get("key"), one.get("label"))
        words = words.lower()
        fits = "researcher" in words and "auth" in words and isinstance(one.get("key"), str)
        if fits and not any(word in words for word in CONTRARY):
            found.append(one)
    return found[0] if len(found) == 1 else None


def is_on(setting):
    """Return whether a setting is on, in either spelling."""
    return setting is not None and str(setting.get("value")).lower() == "true"


def researchers(backend, want):
    """Return (what is so now, whether it was changed).

    Raises:
        BackendError: the backend does not answer.
    """
    if not want["password"]:
        return BY_HAND, False
    try:
        backend.log_in(want["username"], want["password"])
    except BackendError as error:
        if error.final:
            return BY_HAND, False
        raise
    switch = switch_of(backend.settings())
    if switch is None:
        return BY_HAND, False
    if is_on(switch):
        return ON, False
    taken = backend.set(switch["key"], True)
    seen = taken and is_on(switch_of(backend.settings()))
    return (ON if seen else BY_HAND), taken


def logins(backend, record, want):
    """Return (users with a first password, the researchers' switch, whether anything changed).

    Raises:
        BackendError: the backend does not answer.
    """
    users, certain = first_passwords(backend, want["first_passwords"] or [])
    # What the backend does not say is not noted: the next run asks again.
    notes = {FIRST_PASSWORDS: ",".join(users) or NONE} if users or certain else {}
    switched, changed = "", False
    if want["researchers"]:
        switched, changed = researchers(backend, want)
        notes[RESEARCHERS] = switched
    return users, switched, record.note(notes) or changed


def main():
    """Run the module."""
    known = {"type": "list", "elements": "str", "required": True, "no_log": False}
    options = {"user": {"type": "str", "required": True}, "known": known}
    users = {"type": "list", "elements": "dict", "options": options, "no_log": False}
    module = AnsibleModule(
        argument_spec=dict(
            ARGUMENTS, first_passwords=users, researchers={"type": "bool", "default": False}
        ),
        supports_check_mode=True,
    )
    if module.check_mode:
        module.exit_json(changed=False)
    found, switched, changed = answer(module, logins)
    module.exit_json(changed=changed, first_passwords=found, researchers=switched)


if __name__ == "__main__":
    main()
