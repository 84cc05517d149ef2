"""A registry that is not ours gets the images that it lacks, and loses nothing."""

import json

ADDRESS = "registry.site.test:5000"
ASK = "curl --silent --fail --cacert /etc/appliance/registry/external-ca.crt"
CURL = f"{ASK} -H 'Authorization: Bearer anonymous' https://{ADDRESS}/v2"
RECORD = "/var/lib/appliance/registry-verified.json"
STORAGE = "/var/lib/docker-registry/docker/registry/v2"
CRANE = (
    "SSL_CERT_FILE=/etc/appliance/ca.crt DOCKER_CONFIG=/etc/appliance/registry/login "
    "/var/lib/appliance/bundle/bin/crane"
)


def test_every_image_is_in_the_project(host):
    repositories = json.loads(host.run(f"{CURL}/_catalog").stdout)["repositories"]
    assert sorted(repositories) == ["team/gpu/busybox", "team/gpu/pause"]


def test_what_was_verified_is_recorded_without_a_secret(host):
    held = json.loads(host.file(RECORD).content_string)
    assert held["registry"] == f"{ADDRESS}/team/gpu"
    assert sorted(held["images"]) == ["busybox:1.35.0", "pause:3.6"]
    assert (
        "molecule"
        not in host.file(RECORD).content_string + host.run("journalctl --no-pager").stdout
    )


def test_the_login_is_for_root_alone(host):
    file = host.file("/etc/appliance/registry/login/config.json")
    assert (file.user, file.group, file.mode) == ("root", "root", 0o600)


def test_an_image_that_its_operators_deleted_is_pushed_again(drift, host):
    drift([f"rm -r {STORAGE}/repositories/team/gpu/pause/_manifests/tags"], 1)
    assert "3.6" in host.run(f"{CURL}/team/gpu/pause/tags/list").stdout


def test_a_tag_that_names_another_image_is_never_replaced(host, refusal):
    here, other = (f"{ADDRESS}/team/gpu/{name}" for name in ("pause:3.6", "busybox:1.35.0"))
    digest = host.run_expect([0], f"{CRANE} digest {here}").stdout.strip()
    host.run_expect([0], f"{CRANE} copy {other} {here}")
    theirs = host.run_expect([0], f"{CRANE} digest {here}").stdout.strip()
    assert "nothing was replaced" in refusal()
    assert host.run(f"{CRANE} digest {here}").stdout.strip() == theirs != digest
    host.run_expect([0], f"{CRANE} tag {ADDRESS}/team/gpu/pause@{digest} 3.6")
