"""The options of Ansible's own ``ssh``, which ``capped_ssh`` also has."""

from __future__ import annotations

import yaml
from ansible.plugins.connection import ssh


class ModuleDocFragment:
    """Ansible reads a plugin's options from its documentation."""

    DOCUMENTATION = yaml.safe_dump({"options": yaml.safe_load(ssh.DOCUMENTATION)["options"]})
