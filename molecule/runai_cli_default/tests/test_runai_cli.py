"""A host on which two researchers use Run:ai's CLI."""

COMPLETION = "/etc/bash_completion.d/runai"


def test_the_program_and_its_completion_are_there(host):
    assert host.file("/usr/local/bin/runai").mode == 0o755
    assert "complete -W" in host.file(COMPLETION).content_string


def test_every_researcher_owns_a_kubeconfig(host):
    for name in ("ada", "grace"):
        config = host.file(f"/home/{name}/.kube/config")
        assert (config.user, config.mode) == (name, 0o600)
        assert "runai-authenticated-user" in config.content_string


def test_a_foreign_kubeconfig_was_put_aside(host):
    kept = host.file("/home/grace/.kube/config.before-appliance-1")
    assert kept.content_string.strip() == "users: []"


def test_drift_is_reported_and_repaired(drift):
    drift([f"rm {COMPLETION}", "chmod 0644 /home/ada/.kube/config"], 2)
