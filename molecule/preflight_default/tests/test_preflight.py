"""Preflight only looks."""


def test_nothing_was_written(host):
    assert not host.file("/etc/appliance").exists
    assert not host.file("/var/lib/appliance").exists
