"""The site's names are answered on one address, and nothing else is bound."""

import pytest


def address(host):
    return host.ansible.get_variables()["ansible_host"]


def ask(host, name):
    script = (
        "import socket,struct,sys\n"
        "name,server=sys.argv[1:]\n"
        "q=b''.join(bytes([len(p)])+p.encode() for p in name.split('.'))+b'\\0'\n"
        "s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.settimeout(5)\n"
        "s.sendto(struct.pack('>6H',7,256,1,0,0,0)+q+struct.pack('>2H',1,1),(server,53))\n"
        "a=s.recv(512); print(a[3]&15, '.'.join(map(str,a[-4:])) if a[7] else '-')\n"
    )
    return host.run("python3 -c %s %s %s", script, name, address(host)).stdout.strip()


def test_the_backend_has_its_address(host):
    assert ask(host, "runai.site.test") == "0 198.18.250.9"


def test_a_name_of_the_zone_that_is_not_known_does_not_exist(host):
    assert ask(host, "nobody.site.test") == "3 -"


def test_the_loopback_is_left_to_others(host):
    assert host.service("dnsmasq").is_enabled
    assert not host.socket("udp://127.0.0.1:53").is_listening


@pytest.mark.parametrize(
    ("commands", "tasks"),
    [
        (
            [
                "echo 'host-record=other,192.0.2.1' >> /etc/dnsmasq.d/appliance.conf",
                "systemctl disable --now dnsmasq",
                "apt-mark unhold dnsmasq",
            ],
            3,
        ),
    ],
)
def test_drift_is_reported_and_repaired(drift, commands, tasks):
    drift(commands, tasks)
