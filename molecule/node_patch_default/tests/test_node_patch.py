"""A node with the updates of an archive: what is on hold and what people changed stays."""

CONF = "/etc/sample-agent.conf"
KERNEL = "linux-image-6.1.0-999-sample"


def versions(host):
    asked = (
        "dpkg-query -W -f '${Package} ${Version} ${db:Status-Status}\\n' 'sample-*' 'linux-image-*'"
    )
    found = (line.split() for line in host.run(asked).stdout.splitlines())
    return {name: version for name, version, status in found if status == "installed"}


def test_updates_are_there_with_their_new_dependency(host):
    assert versions(host) == {
        "sample-agent": "2.0",
        "sample-new": "1.0",
        "sample-held": "1.0",
        "sample-cut": "1.0",
        KERNEL: "6.1.999-1",
    }


def test_a_changed_configuration_file_stays_with_the_packages_own_beside_it(host):
    assert host.file(CONF).content_string == "changed = by hand\n"
    assert host.file(CONF + ".dpkg-dist").content_string == "version = 2.0\n"


def test_a_new_kernel_is_on_hold_as_those_before_it(host):
    held = host.run("apt-mark showhold").stdout.split()
    assert sorted(held) == [KERNEL, "sample-held"]


def test_no_service_is_left_out_of_a_restart(host):
    assert not host.file("/usr/sbin/policy-rc.d").exists
    assert not host.file("/run/reboot-required").exists
