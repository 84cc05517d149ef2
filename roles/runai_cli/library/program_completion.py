#!/usr/bin/python
"""Ansible module: bash completion of a program, as the program itself writes it on this node."""

from __future__ import annotations

from pathlib import Path

from ansible.module_utils.appliance_files import write
from ansible.module_utils.appliance_jumpbox import Unusable, completion, read_text
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: program_completion
short_description: Keep a program's bash completion
description:
  - Runs C(PROGRAM completion bash) in an empty home and writes what it says, where that differs.
  - In check mode a program that is not there yet counts as a change.
options:
  program: {description: Path of the program, type: path, required: true}
  path: {description: Where its completion goes, type: path, required: true}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Complete runai's commands
  program_completion:
    program: /usr/local/bin/runai
    path: /etc/bash_completion.d/runai
"""

RETURN = r"""
path: {description: The file, type: str, returned: always}
"""


def keep(program, path, check_mode):
    """Bring the file to what the program says; return whether it differed."""
    if check_mode and not Path(program).exists():
        return True
    text = completion(program)
    if read_text(path) == text and Path(path).stat().st_mode & 0o7777 == 0o644:
        return False
    if not check_mode:
        Path(path).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        write(Path(path), text, 0o644)
    return True


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "program": {"type": "path", "required": True},
            "path": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    want = module.params
    try:
        changed = keep(want["program"], want["path"], module.check_mode)
    except (Unusable, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=changed, path=want["path"])


if __name__ == "__main__":
    main()
