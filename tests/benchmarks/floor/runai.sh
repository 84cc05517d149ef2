#!/bin/bash
# The floor of the steps storage to access: what `appliance install` goes on to do on a Ready cluster, typed as apt-get, docker, kubectl
# and helm commands. It never looks before it acts, proves nothing by pods, takes nothing back, cannot be run twice.
# From the environment: FLOOR_KEY, FLOOR_KNOWN_HOSTS, FLOOR_LOGIN as in floor.sh; FLOOR_MASTER, an address; FLOOR_NODES, name=address each,
# the master first; FLOOR_SYSTEM, the node of the vendor's own software, and FLOOR_GPU, those of jobs, names; FLOOR_REGISTRY, NAME:PORT;
# FLOOR_DOMAIN and FLOOR_ADDRESS of the backend; FLOOR_CLUSTER, its name there; FLOOR_TAR, the vendor bundle; FLOOR_FILES, a folder with
# gpu.json, tls.crt, tls.key, ca.crt and password; FLOOR_SERVER and FLOOR_CLIENT, packages; FLOOR_GPUS, how many a node is to offer.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
options=(-i "$FLOOR_KEY" -o "UserKnownHostsFile=$FLOOR_KNOWN_HOSTS" -o StrictHostKeyChecking=yes -o LogLevel=ERROR
  -o ControlMaster=auto -o "ControlPath=$work/%h" -o ControlPersist=60)
read -ra nodes <<<"$FLOOR_NODES"

on() { ssh "${options[@]}" "$FLOOR_LOGIN@$1" sudo -n bash -euo pipefail -s -- "$(printf '%q ' "${@:2}")"; }
master() { on "$FLOOR_MASTER" "$@" <"$here/runai_master.sh"; }
bring() { rsync -rlpt --whole-file -e "ssh ${options[*]}" --rsync-path="sudo -n rsync" "$@" "$FLOOR_LOGIN@$FLOOR_MASTER:/opt/floor/"; }
told() { printf '%d.%d %s\n' $((took = (${EPOCHREALTIME/./} - since) / 100000, took / 10)) $((took % 10)) "$1"; }
since=${EPOCHREALTIME/./}

packages() { # name, address: the NFS client; on the master the server and dnsmasq, too
  local wanted=$FLOOR_CLIENT
  [ "$2" != "$FLOOR_MASTER" ] || wanted+=" $FLOOR_SERVER"
  on "$2" "$wanted" <<'EOF'
read -ra packages <<<"$1"
export APT_CONFIG=/var/lib/appliance/apt/apt.conf DEBIAN_FRONTEND=noninteractive
apt-get -qq update
apt-get -qq -y --no-install-recommends install "${packages[@]}" >/dev/null 2>&1
EOF
}

bring "$FLOOR_FILES/" "$here/runai_storage.yaml" "$here/ganesha.conf"
pids=()
for node in "${nodes[@]}"; do packages "${node%%=*}" "${node#*=}" & pids+=($!); done
for pid in "${pids[@]}"; do wait "$pid"; done
master storage "${nodes[0]%%=*}"
told "storage: packages, NFS server, volumes"
master gpu "$FLOOR_GPUS" "$FLOOR_GPU"
told "gpu: the operator, and every GPU offered"
bring "$FLOOR_TAR"
told "runai: the vendor bundle on the master"
master bundle "$(basename "$FLOOR_TAR")" "$FLOOR_REGISTRY"
told "runai: unpacked, images in the registry"
master backend "$FLOOR_DOMAIN" "$FLOOR_ADDRESS" "$FLOOR_REGISTRY" "$FLOOR_SYSTEM" "$FLOOR_MASTER" "${nodes[0]%%=*}"
told "runai: the backend is ready"
master cluster "$FLOOR_DOMAIN" "$FLOOR_CLUSTER"
told "runai: the cluster is connected"
master roles "$FLOOR_GPU"
told "node_roles"
master access "$FLOOR_DOMAIN"
told "access: the API server is back with the flags"
