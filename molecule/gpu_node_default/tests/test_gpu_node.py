"""A worker on which NVIDIA's driver finds its GPUs free."""

DROP_IN = "/etc/modprobe.d/appliance-nouveau.conf"


def test_nouveau_is_blocked_for_modprobe_too(host):
    assert host.file(DROP_IN).mode == 0o644
    config = host.run("modprobe --showconfig").stdout
    assert "blacklist nouveau" in config
    assert "options nouveau modeset=0" in config


def test_nothing_unfinished_is_left(host):
    assert host.run("ls /etc/modprobe.d | grep unfinished").stdout == ""


def test_the_fabric_manager_runs_where_it_was_asked_for(host):
    unit = host.service("nvidia-fabricmanager")
    wanted = host.backend.get_hostname().startswith("gpu-node-1-")
    assert unit.is_running is wanted
    assert unit.is_enabled is wanted


def test_drift_is_reported_and_repaired(drift):
    drift([f"echo '# emptied' > {DROP_IN}"], 1)
