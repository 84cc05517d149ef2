#!/bin/sh
# STANDIN for a member of a cluster, with things that are none of its.
set -eu
for unit in kubelet keepalived docker; do
  printf '[Unit]\nDescription=STANDIN\n[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n' \
    > "/etc/systemd/system/$unit.service"
done
systemctl daemon-reload
systemctl enable --now kubelet keepalived docker
for file in etc/kubernetes/pki/ca.crt etc/kubernetes/kubelet.conf var/lib/etcd/member/wal \
  var/lib/cni/networks/cbr0 run/flannel/subnet.env etc/cni/net.d/10-flannel.conflist root/.kube/config \
  var/lib/kubelet/pki/kubelet.pem srv/kept var/lib/appliance/archive/kept; do
  mkdir -p "/$(dirname "$file")"
  echo left > "/$file"
done
mkdir -p /var/lib/kubelet/pods/p/volumes
mount -t tmpfs tmpfs /var/lib/kubelet/pods/p/volumes
ip link add cni0 type bridge
ip link add flannel.1 type bridge
ip link add docker0 type bridge
