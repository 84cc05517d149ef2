"""Node objects and their pods: read, and changed one by one."""
