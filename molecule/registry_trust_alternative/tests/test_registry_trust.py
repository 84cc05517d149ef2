"""A registry that asks for a login gets it from the kubelet and from Docker's client."""

import base64
import json

import pytest

FILES = ("/var/lib/kubelet/config.json", "/etc/appliance/registry/pull/config.json")
REGISTRY = "registry.site.test:5000"


@pytest.mark.parametrize("path", FILES)
def test_the_login_is_in_a_file_for_root_alone(host, path):
    file = host.file(path)
    assert (file.user, file.mode) == ("root", 0o600)
    auth = json.loads(file.content_string)["auths"][REGISTRY]["auth"]
    assert base64.b64decode(auth) == b"robot$gpu:molecule-molecule"


@pytest.mark.parametrize("path", FILES)
def test_drift_is_reported_and_repaired(drift, path):
    drift([f"rm {path}"], 1)
    drift([f"chmod 644 {path}"], 1)


def test_other_logins_stay(drift, host):
    path = FILES[0]
    drift([f"""echo '{{"auths": {{"other.test": {{"auth": "eDp5"}}}}}}' > {path}"""], 1)
    assert set(json.loads(host.file(path).content_string)["auths"]) == {"other.test", REGISTRY}
