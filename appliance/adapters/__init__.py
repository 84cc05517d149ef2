"""Everything that touches the outside: SSH, Ansible, Kubernetes, podman, files, SQLite.

An adapter translates foreign errors into ``appliance.errors`` at the border. Heavy imports
(kubernetes, paramiko, ansible_runner) happen inside functions, so that ``--help`` stays quick.
"""
