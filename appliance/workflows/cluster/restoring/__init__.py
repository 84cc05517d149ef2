"""What a restore needs beyond a session's ports; the workflow is ``cluster/restore.py``."""
