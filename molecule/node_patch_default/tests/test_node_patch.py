"""A node with the updates of an archive: what is on hold and what people changed stays."""

CONF = "/etc/sample-agent.conf"
KERNEL = "linux-image-6.1.0-999-sample"
LIST = "/etc/appliance/updates.list"


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


def test_a_package_on_hold_is_refused_by_name_and_nothing_is_installed(host):
    arguments = f"packages={{'sample-held':'2.0','sample-new':'1.0'}} source_list={LIST}"
    answer = host.ansible("updates_installed", arguments, check=False, become=True)
    assert answer["failed"]
    assert "sample-held is on hold on this node" in answer["msg"]
    assert versions(host)["sample-held"] == "1.0"


def test_an_index_that_the_manifest_does_not_name_installs_nothing(host):
    host.run_expect([0], f"cp {LIST} /etc/appliance/other.list")
    host.run_expect([0], f"echo {'0' * 64} > /etc/appliance/other.list.sha256")
    arguments = "packages={'sample-new':'9.9'} source_list=/etc/appliance/other.list"
    answer = host.ansible("updates_installed", arguments, check=False, become=True)
    assert answer["failed"]
    assert "a package index that is not the bundle's" in answer["msg"]
