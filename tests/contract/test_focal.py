"""Configuration files hold nothing that Ubuntu 20.04's own programs do not know."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract import focal

FILES = focal.table("files")


def _rendered() -> Iterator[tuple[str, str]]:
    for one in focal.written():
        for variables in FILES["variables"].get(one.role.name, ()):
            yield one.rendered(variables)


def test_every_file_that_a_role_writes_has_a_table_or_a_reason() -> None:
    others = {path for paths in FILES["others"].values() for path in paths}
    raw = {one.raw_path for one in focal.written()}
    named = {
        one.raw_path
        for one in focal.written()
        for variables in FILES["variables"].get(one.role.name, ())
        if one.rendered(variables)[0] in FILES["files"]
    }
    assert raw - named - others == set(), "name these in tests/data/focal/files.yml"
    assert others - raw == set(), "no role writes these any more"


def test_no_file_has_a_statement_that_ubuntu_20_04_does_not_know() -> None:
    texts = [(path, text) for path, text in _rendered() if path in FILES["files"]]
    assert {path for path, _ in texts} == set(FILES["files"])
    unknown = {
        path: found for path, text in texts if (found := focal.unknown(FILES["files"][path], text))
    }
    assert unknown == {}


@pytest.mark.parametrize(
    ("path", "old", "new", "found"),
    [
        ("/etc/chrony/chrony.conf", "logdir", "ntsdumpdir /var/lib/chrony\nlogdir", "ntsdumpdir"),
        ("/etc/default/chrony", 'DAEMON_OPTS="', 'DAEMON_OPTS="-F 1 ', "-F 1"),
        ("/etc/haproxy/haproxy.cfg", "http-check expect", "http-check send", "http-check send"),
        ("/etc/haproxy/haproxy.cfg", "check-ssl", "check-ssl init-state", "init-state"),
        ("/etc/haproxy/haproxy.cfg", "frontend api", "log-forward api", "log-forward"),
        ("/etc/keepalived/keepalived.conf", "nopreempt", "checksum_compatibility", None),
        ("/etc/nginx/conf.d/appliance.conf", "server_tokens off", "http2 on", "http2"),
        ("/etc/docker/registry/config.yml", "version:", "catalog: {maxentries: 9}\nversion:", None),
        ("/etc/dnsmasq.d/appliance.conf", "no-hosts", "no-hosts\nfilter-AAAA", "filter-AAAA"),
        ("/etc/nginx/conf.d/appliance.conf", "server_tokens off", "keepalive_time 9", None),
        ("/etc/systemd/system/kubelet.service", "RestartSec", "RestartSteps", None),
        ("/etc/apt/apt.conf.d/90appliance", "::CAInfo", "::SslForceVersion", None),
        ("/etc/appliance/packages.list", "trusted=yes", "snapshot=yes", "snapshot"),
        ("/etc/default/dnsmasq", "DNSMASQ_EXCEPT", "DNSMASQ_EXCEPTED", "DNSMASQ_EXCEPTED"),
        ("/etc/exports.d/appliance.exports", "sync", "sync,xprtsec=tls", "xprtsec"),
        (
            "/etc/apt/apt.conf.d/52appliance-unattended-upgrades",
            "Package-Blacklist",
            "Postpone-For-Days",
            "Unattended-Upgrade::Postpone-For-Days",
        ),
        # Of systemd 246 and 247, the versions that come next.
        ("/etc/systemd/system/kubelet.service", "RestartSec", "CoredumpFilter", None),
        ("/etc/systemd/system/kubelet.service", "RestartSec", "ProtectProc", None),
    ],
)
def test_a_statement_of_a_newer_version_is_found(
    path: str, old: str, new: str, found: str | None
) -> None:
    text = next(text for written, text in _rendered() if written == path and old in text)
    wrong = focal.unknown(FILES["files"][path], text.replace(old, new, 1))
    assert len(wrong) == 1
    assert found is None or wrong == {found}
