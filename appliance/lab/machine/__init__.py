"""The machine that a lab runs on: its programs, package archives, containers and playbooks."""
