"""Starts Ansible without the operator's settings of Ansible.

Ansible reads hundreds of variables, and each beats ``ansible.cfg``: one of them replaces the
connection plugin, another adds plugins. Of the operator's, only those that open the vault are kept;
what this product sets itself is set.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ansible_runner import Runner

# Ansible does not start with a locale that this machine lacks (SSH clients forward theirs), nor
# with a locale without UTF-8. An empty value removes the variable.
LOCALE: Final[Mapping[str, str]] = {"LC_ALL": "C.UTF-8", "LANGUAGE": ""}
_PREFIXES: Final = ("ANSIBLE_", "_ANSIBLE_")
# ansible-runner loads a callback plugin from the first, and reads the second as "no playbook".
_OF_RUNNER: Final = frozenset({"AWX_LIB_DIRECTORY", "AD_HOC_COMMAND_ID"})
_OPENING_THE_VAULT: Final = frozenset(
    {"ANSIBLE_VAULT_PASSWORD_FILE", "ANSIBLE_VAULT_IDENTITY_LIST"}
)


def without_settings() -> dict[str, str]:
    """The operator's settings of Ansible, each with an empty value, which removes it."""
    return {
        name: ""
        for name in list(os.environ)
        if (name.startswith(_PREFIXES) or name in _OF_RUNNER) and name not in _OPENING_THE_VAULT
    }


def run_playbook(envvars: Mapping[str, str], **options: Any) -> Runner:
    """Run a playbook by ansible-runner to its end; takes the options of ``ansible_runner.run``."""
    from ansible_runner.interface import init_runner

    removed = without_settings()
    # Runner reads some variables itself, so they are empty when it does, and absent for Ansible.
    runner: Runner = init_runner(envvars={**removed, **envvars}, **options)
    environment = runner.config.env
    for name in removed:
        if environment.get(name) == "":
            del environment[name]
    runner.run()
    return runner
