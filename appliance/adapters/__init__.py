"""Everything that touches the outside: processes, files, SSH, Ansible, the Kubernetes API.

What belongs here: one module per foreign thing, which translates its errors into ours. What must
not: decisions (they are in ``model``), order of work (``workflows``), or printing (``cli``).
"""
