"""Other options, and configurations that nobody can merge."""

import json

CONFIGURATION = "/etc/docker/daemon.json"


def test_docker_runs_with_the_options_of_the_site(host):
    asked = "docker info --format '{{.DockerRootDir}} {{.LiveRestoreEnabled}} {{.CgroupDriver}}'"
    assert host.run(asked).stdout.split() == ["/var/lib/docker/elsewhere", "true", "systemd"]
    options = json.loads(host.file(CONFIGURATION).content_string)["log-opts"]
    assert options == {"max-file": "7", "max-size": "5m"}


def test_only_docker_itself_is_on_hold(host):
    held = host.run("apt-mark showhold").stdout.split()
    assert "docker.io" in held
    assert "containerd" not in held


def test_a_configuration_that_is_no_json_is_refused_and_left_as_it_is(host, refusal):
    before = host.file(CONFIGURATION).content_string
    host.run_expect([0], f"echo '// theirs' >> {CONFIGURATION}")
    said = refusal()
    assert f"Docker cannot read {CONFIGURATION} (" in said
    assert "it was not changed: fix or remove it" in said
    assert host.file(CONFIGURATION).content_string == before + "// theirs\n"
    host.run_expect([0], f"sed -i '$d' {CONFIGURATION}")


def test_a_package_that_would_drive_out_another_is_refused(host):
    """What conflicts with something installed is not removed for it."""
    host.run_expect([0], "mkdir -p /tmp/pool && cd /tmp/pool && mkdir -p rival/DEBIAN")
    control = r"Package: rival\nVersion: 1\nArchitecture: all\nMaintainer: x <x@site.test>\n"
    control += r"Conflicts: docker.io\nDescription: x\n"
    host.run_expect([0], f"cd /tmp/pool && printf '{control}' > rival/DEBIAN/control")
    host.run_expect([0], "cd /tmp/pool && dpkg-deb --build rival && rm -r rival")
    listed = "printf 'Filename: ./rival.deb\\nSize: %s\\nSHA256: %s\\n' $(stat -c %s rival.deb)"
    listed += " $(sha256sum rival.deb | cut -d' ' -f1)"
    host.run_expect([0], f"cd /tmp/pool && (dpkg-deb --field rival.deb; {listed}) > Packages")
    host.run_expect([0], "echo 'deb [trusted=yes] file:/tmp/pool ./' > /tmp/rival.list")
    digest = "sha256sum < /tmp/pool/Packages | cut -d' ' -f1 > /tmp/rival.list.sha256"
    host.run_expect([0], digest)
    arguments = "packages=rival=1 source_list=/tmp/rival.list"
    answer = host.ansible("packages_from_bundle", arguments, check=False, become=True)
    assert "rival : Conflicts: docker.io" in answer["msg"]
    host.run_expect([0], "apt-mark unhold docker.io")
    answer = host.ansible("packages_from_bundle", arguments, check=False, become=True)
    assert "apt would remove docker.io" in answer["msg"]
    assert host.package("docker.io").is_installed
    assert host.service("docker").is_running
