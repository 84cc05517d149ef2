#!/bin/bash
# On every node, as root: settings, packages, Docker, programs; on the master also the web server and the registry.
# $1 registry NAME:PORT, $2 artifacts NAME:PORT, $3 the master's address, $4 packages
set -euo pipefail
f=/opt/floor
printf '%s = 1\n' net.ipv4.ip_forward net.bridge.bridge-nf-call-iptables net.bridge.bridge-nf-call-ip6tables >/etc/sysctl.d/90-floor.conf
sysctl -qp /etc/sysctl.d/90-floor.conf
printf '%s\n' br_netfilter overlay >/etc/modules-load.d/floor.conf
cat $f/own/hosts >>/etc/hosts
install -D -m 644 $f/own/tls.crt "/etc/docker/certs.d/$1/ca.crt"
echo '{"exec-opts": ["native.cgroupdriver=systemd"], "storage-driver": "overlay2"}' >/etc/docker/daemon.json
# The clock of a lab belongs to its host: -x leaves it alone.
mkdir -p /etc/chrony /etc/default
echo 'DAEMON_OPTS="-F 1 -x"' >/etc/default/chrony
printf 'server %s iburst\nlocal stratum 10 orphan\nallow\ndriftfile /var/lib/chrony/drift\n' "$3" >/etc/chrony/chrony.conf
mine=$(ip -4 -o address | grep -cF " $3/") || true
if [ "$mine" -gt 0 ]; then
  mkdir -p /etc/docker/registry /etc/nginx/sites-enabled /var/lib/docker-registry
  printf 'version: 0.1\nstorage: {filesystem: {rootdirectory: /var/lib/docker-registry}}\nhttp: {addr: ":%s", tls: {certificate: %s, key: %s}}\n' \
    "${1#*:}" $f/own/tls.crt $f/own/tls.key >/etc/docker/registry/config.yml
  printf 'server { listen %s ssl; ssl_certificate %s; ssl_certificate_key %s; root %s; }\n' \
    "${2#*:}" $f/own/tls.crt $f/own/tls.key $f >/etc/nginx/sites-enabled/floor
fi

echo "deb [trusted=yes] file:$f/apt ./" >/etc/apt/floor.list
apt=(apt-get -qq -o Dir::Etc::SourceList=/etc/apt/floor.list -o Dir::Etc::SourceParts=/dev/null)
"${apt[@]}" update
read -ra packages <<<"$4"
DEBIAN_FRONTEND=noninteractive "${apt[@]}" -y --no-install-recommends -o Dpkg::Options::=--force-confold install "${packages[@]}" >/dev/null 2>&1
install -m 755 -t /usr/local/bin $f/bin/kube{adm,let,ctl}
install -D -m 755 -t /opt/cni/bin $f/cni/*
cat >/etc/systemd/system/kubelet.service <<'EOF'
[Unit]
After=docker.service
ConditionPathExists=/var/lib/kubelet/config.yaml
[Service]
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
ExecStart=/usr/local/bin/kubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf --config=/var/lib/kubelet/config.yaml $KUBELET_KUBEADM_ARGS
Restart=always
RestartSec=5
[Install]
WantedBy=multi-user.target
EOF
systemctl -q enable kubelet
if [ "$mine" -gt 0 ]; then
  chgrp docker-registry $f/own/tls.key && chmod 640 $f/own/tls.key && chown docker-registry /var/lib/docker-registry
  systemctl restart docker-registry
fi
