"""A registry that holds every image of the bundle: open to reading, closed to writing."""

import json

import pytest

STORAGE = "/var/lib/docker-registry/docker/registry/v2"
SITE = "https://registry.site.test:5000"
ASK = "curl --silent --cacert /etc/appliance/ca.crt"
CURL = f"{ASK} --fail -H 'Authorization: Bearer anonymous' {SITE}/v2"
CODE = f"{ASK} --output /dev/null --write-out '%{{http_code}}'"
CRANE = "SSL_CERT_FILE=/etc/appliance/ca.crt /var/lib/appliance/bundle/bin/crane"
LOGIN = "/etc/appliance/registry/login"
FRONT = "/etc/appliance/registry/nginx.conf"


def test_it_answers_over_tls_with_a_certificate_of_the_site(host):
    assert host.run(f"{CURL}/").stdout.strip() == "{}"
    assert sorted(json.loads(host.run(f"{CURL}/_catalog").stdout)["repositories"]) == [
        "busybox",
        "pause",
    ]


def test_what_is_secret_is_for_root_alone(host):
    for path in ("/etc/appliance/tls/registry.key", FRONT, f"{LOGIN}/config.json"):
        file = host.file(path)
        assert (file.user, file.group, file.mode) == ("root", "root", 0o600)


def test_it_does_not_run_as_root_and_has_no_port_of_its_own(host):
    pid = host.run("systemctl show -p MainPID --value docker-registry").stdout.strip()
    assert host.run(f"stat -c %U /proc/{pid}").stdout.strip() == "docker-registry"
    assert "docker-registry" not in host.run("ss -Hltnp").stdout
    socket = host.file("/run/docker-registry")
    assert (socket.user, socket.group, socket.mode) == ("docker-registry", "www-data", 0o750)


def test_anyone_pulls_and_only_the_login_pushes_and_deletes(host):
    host.run_expect([0], f"{CRANE} pull registry.site.test:5000/pause:3.6 /root/pause.tar")
    push = f"{CRANE} push /root/pause.tar registry.site.test:5000/pause:mine"
    refused = host.run_expect([1], push)
    assert "pushing and deleting need the login" in refused.stderr
    host.run_expect([0], f"DOCKER_CONFIG={LOGIN} {push}")
    delete = f"{CRANE} delete registry.site.test:5000/pause:mine"
    host.run_expect([1], delete)
    host.run_expect(
        [0], "rm -r /root/pause.tar " + f"{STORAGE}/repositories/pause/_manifests/tags/mine"
    )


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "INVENTED"])
@pytest.mark.parametrize(
    "path", ["/v2/", "/v2/pause/manifests/3.6", "//v2/pause/manifests/3.6", "/%76%32/", "/"]
)
def test_any_method_but_reading_needs_the_login_on_any_path(host, method, path):
    for login in ("", "-u appliance:wrong", "-H 'Authorization: Bearer anonymous'"):
        command = f"{CODE} --path-as-is -X {method} {login} {SITE}{path}"
        assert host.run(command).stdout == "401"


@pytest.mark.parametrize(
    ("commands", "tasks"),
    [
        (
            [
                f"rm -r {STORAGE}/repositories/pause/_manifests/tags",
                f"rm -r {STORAGE}/repositories/busybox/_layers",
                "apt-mark unhold docker-registry",
                "echo '# theirs' >> /etc/docker/registry/config.yml",
            ],
            3,
        ),
        ([f"rm -r $(dirname $(find {STORAGE}/blobs -name data -size +64k | head -1))"], 1),
        ([f"truncate -s 10 $(find {STORAGE}/blobs -name data -size +64k | head -1)"], 1),
        (["systemctl disable --now docker-registry", "rm /etc/appliance/tls/registry.key"], 4),
        ([f"chmod 644 {FRONT}", "systemctl disable --now docker-registry-tls"], 2),
        ([f"sed -i s/Bearer/Bear/ {FRONT}", f"rm {LOGIN}/config.json"], 1),
    ],
)
def test_drift_is_reported_and_repaired(drift, host, commands, tasks):
    drift(commands, tasks)
    assert "1.35.0" in host.run(f"{CURL}/busybox/tags/list").stdout
    assert host.run(f"{CODE} -X PUT {SITE}/v2/").stdout == "401"


def test_a_registry_of_an_earlier_release_gets_the_login(host, converge_again):
    """It answered on the port itself, over TLS, and took whatever came."""
    old = (
        "systemctl disable --now docker-registry-tls; rm /etc/systemd/system/docker-registry-tls*; "
        "rm -r /etc/systemd/system/docker-registry.service.d /etc/appliance/registry; "
        "chgrp docker-registry /etc/appliance/tls/registry.key; "
        "chmod 640 /etc/appliance/tls/registry.key; "
        "printf 'version: 0.1\\nstorage: {filesystem: {rootdirectory: /var/lib/docker-registry}}\\n"
        'http: {addr: ":5000", tls: {certificate: /etc/appliance/tls/registry.crt, '
        "key: /etc/appliance/tls/registry.key}}\\n' > /etc/docker/registry/config.yml; "
        "systemctl daemon-reload; systemctl restart docker-registry; sleep 1"
    )
    host.run_expect([0], old)
    assert host.run(f"{CODE} -X PUT {SITE}/v2/").stdout == "200", "the old one takes writes"
    assert converge_again() > 0
    assert host.run(f"{CODE} -X PUT {SITE}/v2/").stdout == "401"
    assert host.run(f"{CURL}/").stdout.strip() == "{}"
