"""What kubeadm and the kubelet need is there, whole, and nothing has been started."""

import pytest

PAUSE = "registry.site.test:5000/pause:3.6"


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("kubeadm version -o short", "v1.23.5"),
        ("kubelet --version", "Kubernetes v1.23.5"),
        ("kubectl version --client --short", "Client Version: v1.23.5"),
    ],
)
def test_programs_run_and_say_the_releases_version(host, command, answer):
    assert host.check_output(command).strip() == answer


def test_plugins_are_where_the_kubelet_looks(host):
    assert host.file("/opt/cni/bin/bridge").mode == 0o755
    assert host.file("/opt/cni/bin/flannel").mode == 0o755


def test_the_kubelet_waits_for_kubeadm_without_a_failed_unit(host):
    shown = host.check_output("systemctl show -p LoadState,ActiveState,NeedDaemonReload kubelet")
    assert set(shown.split()) == {
        "LoadState=loaded",
        "ActiveState=inactive",
        "NeedDaemonReload=no",
    }
    host.run_expect([0], "systemctl start kubelet")
    assert "condition failed" in host.run("systemctl status kubelet").stdout.lower()
    assert host.check_output("systemctl is-failed kubelet || true").strip() == "inactive"


def test_images_are_here_by_tag_and_by_digest(host):
    shown = host.check_output(f"docker image inspect -f '{{{{.RepoDigests}}}}' {PAUSE}")
    assert "registry.site.test:5000/pause@sha256:" in shown


RULES = [
    "-A FORWARD -j APPLIANCE-PODS",
    "-A INPUT -j APPLIANCE-PODS",
    "-A APPLIANCE-PODS -s 198.19.0.0/17 -j APPLIANCE-PODS-DENIED",
    "-A APPLIANCE-PODS -i cni0 -j APPLIANCE-PODS-DENIED",
    "-A APPLIANCE-PODS -m conntrack --ctstate DNAT -j APPLIANCE-PODS-DENIED",
    "-A APPLIANCE-PODS-DENIED -d 198.18.0.9/32 -p tcp -m tcp --dport 5000 -j DROP",
    "-A APPLIANCE-PODS-DENIED -p udp -m udp --dport 111 -m addrtype --dst-type LOCAL -j DROP",
]


def guard(host):
    lines = host.check_output("iptables-save -t mangle").splitlines()
    return [line for line in lines if line.startswith("-A ") and "APPLIANCE-PODS" in line]


def test_pods_are_kept_away_as_the_rules_say_and_again_after_a_restart(host):
    assert sorted(guard(host)) == sorted(RULES)
    host.run_expect([0], "iptables -t mangle -F; iptables -t mangle -X")
    host.run_expect(
        [0], "/usr/local/sbin/appliance-pod-guard && /usr/local/sbin/appliance-pod-guard"
    )
    assert sorted(guard(host)) == sorted(RULES)
    host.run_expect(
        [0], "iptables -t mangle -A APPLIANCE-PODS -j ACCEPT; systemctl restart pod-guard"
    )
    assert sorted(guard(host)) == sorted(RULES)


@pytest.fixture
def a_kubelet_that_would_start(host):
    """kubeadm's file is there, and the program only notes that it was started."""
    host.run_expect([0], "systemctl stop pod-guard; mkdir -p /run/systemd/system/kubelet.service.d")
    host.run_expect([0], "mkdir -p /var/lib/kubelet && touch /var/lib/kubelet/config.yaml")
    started = '[Service]\\nExecStart=\\nExecStart=/bin/sh -c "touch /run/started; sleep 600"\\n'
    folder = "/run/systemd/system/kubelet.service.d"
    host.run_expect([0], f"printf '{started}' > {folder}/30-test.conf; systemctl daemon-reload")
    yield
    host.run("systemctl stop kubelet; systemctl reset-failed kubelet; rm -f /run/started")
    host.run(f"rm -r {folder} /var/lib/kubelet/config.yaml; systemctl daemon-reload")
    host.run_expect([0], "systemctl start pod-guard")


@pytest.mark.usefixtures("a_kubelet_that_would_start")
def test_no_kubelet_runs_before_its_pods_are_kept_away(host):
    rules = "/etc/appliance/pod-guard.rules"
    host.run_expect([0], "iptables -t mangle -F; iptables -t mangle -X")
    host.run_expect([0], f"cp -p {rules} /root/rules && echo no-rule > {rules}")
    assert host.run("systemctl start kubelet").rc != 0
    assert not host.file("/run/started").exists
    host.run_expect([0], f"systemctl stop kubelet; mv /root/rules {rules}")
    assert guard(host) == []
    host.run_expect([0], "systemctl start kubelet")
    assert host.file("/run/started").exists
    assert sorted(guard(host)) == sorted(RULES)


@pytest.mark.usefixtures("a_kubelet_that_would_start")
def test_a_restart_of_the_guard_leaves_the_kubelet_alone(host):
    host.run_expect([0], "systemctl start pod-guard kubelet")
    shown = "systemctl show -p MainPID -p ActiveState kubelet"
    before = host.check_output(shown)
    assert "ActiveState=active" in before
    host.run_expect([0], "systemctl restart pod-guard; systemctl stop pod-guard")
    assert host.check_output(shown) == before


@pytest.mark.parametrize(
    ("commands", "told", "tasks"),
    [
        (
            [
                # --check tells of the file alone; its service is restarted, too.
                "echo '# theirs' >> /etc/appliance/pod-guard.rules; systemctl restart pod-guard",
                "echo >> /usr/local/bin/kubectl; chmod 700 /opt/cni/bin/bridge",
                f"docker tag registry.site.test:5000/busybox:1.35.0 {PAUSE}",
                "apt-mark unhold conntrack",
            ],
            4,
            5,
        ),
        (
            [
                "systemctl disable --now pod-guard",
                "rm /usr/local/bin/kubeadm && ln -s /bin/true /usr/local/bin/kubeadm",
                "sed -i s/RestartSec=5/RestartSec=50/ /etc/systemd/system/kubelet.service",
                f"docker rmi -f $(docker image inspect -f '{{{{.Id}}}}' {PAUSE})",
            ],
            4,
            4,
        ),
    ],
)
def test_drift_is_reported_and_repaired(drift, commands, told, tasks):
    drift(commands, tasks, told=told)


def test_a_file_the_server_serves_wrongly_never_reaches_its_place(host, converge_again):
    served = "/var/lib/appliance/bundle/bin/kubectl"
    host.run_expect([0], f"cp -a {served} /root/kubectl && rm /usr/local/bin/kubectl")
    host.run_expect([0], f"rm {served} && echo other > {served} && chmod 755 {served}")
    try:
        with pytest.raises(AssertionError, match="the bundle's manifest says"):
            converge_again()
        assert not host.file("/usr/local/bin/kubectl").exists
    finally:
        host.run_expect([0], f"mv /root/kubectl {served}")
    assert converge_again() == 1
