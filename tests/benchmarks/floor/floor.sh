#!/bin/bash
# The floor: what `appliance install` leaves behind, made by hand from the same bundle: parallel, no sleeps.
# It never looks before it acts, proves nothing, cannot be run twice, and heals nothing.
# From the environment: FLOOR_BUNDLE; FLOOR_KEY and FLOOR_KNOWN_HOSTS; FLOOR_LOGIN, the user; FLOOR_MASTER and FLOOR_WORKERS,
# name=address each; FLOOR_REGISTRY, FLOOR_ARTIFACTS, FLOOR_API, NAME:PORT each; FLOOR_PODS and FLOOR_SERVICES, ranges;
# FLOOR_PACKAGES for every node, FLOOR_MASTER_PACKAGES for the master alone; FLOOR_IGNORE, checks of kubeadm.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
options=(-i "$FLOOR_KEY" -o "UserKnownHostsFile=$FLOOR_KNOWN_HOSTS" -o StrictHostKeyChecking=yes -o LogLevel=ERROR
  -o ControlMaster=auto -o "ControlPath=$work/%h" -o ControlPersist=60)
master=${FLOOR_MASTER#*=}
read -ra workers <<<"$FLOOR_WORKERS"
all=("$FLOOR_MASTER" "${workers[@]}")

on() { ssh "${options[@]}" "$FLOOR_LOGIN@$1" sudo -n bash -euo pipefail -s -- "$(printf '%q ' "${@:2}")"; }
bring() { rsync -rlpt --whole-file --relative -e "ssh ${options[*]}" --rsync-path="sudo -n rsync" "${@:2}" "$FLOOR_LOGIN@$1:/opt/floor/"; }
told() { printf '%d.%d %s\n' $((took = (${EPOCHREALTIME/./} - since) / 100000, took / 10)) $((took % 10)) "$1"; } # seconds since the start, and what is done
since=${EPOCHREALTIME/./}

# One function for all nodes at the same time; the first that fails ends everything.
each() {
  local pids=() node
  for node in "${@:2}"; do "$1" "${node%%=*}" "${node#*=}" & pids+=($!); done
  for node in "${pids[@]}"; do wait "$node"; done
}

mkdir "$work/own"
names=("${FLOOR_REGISTRY%:*}" "${FLOOR_ARTIFACTS%:*}")
openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj "/CN=${names[0]}" -addext "subjectAltName=DNS:${names[0]},DNS:${names[1]}" \
  -keyout "$work/own/tls.key" -out "$work/own/tls.crt" 2>/dev/null
for node in "${all[@]}"; do echo "${node#*=} ${node%%=*}"; done >"$work/own/hosts"
echo "$master ${names[*]} ${FLOOR_API%:*}" >>"$work/own/hosts"
for file in kubeadm.yaml flannel.yaml; do
  sed "s|@ADDRESS@|$master|; s|@REGISTRY@|$FLOOR_REGISTRY|; s|@API@|$FLOOR_API|; s|@PODS@|$FLOOR_PODS|; s|@SERVICES@|$FLOOR_SERVICES|" \
    "$here/$file" >"$work/own/$file"
done

prepare() { # name, address: files and packages; the master gets the whole bundle, as the site's own source
  local packages=$FLOOR_PACKAGES what=("$FLOOR_BUNDLE/./apt" "$FLOOR_BUNDLE"/./bin/kube{adm,let,ctl} "$FLOOR_BUNDLE/./cni")
  [ "$2" != "$master" ] || { packages+=" $FLOOR_MASTER_PACKAGES"; what=("$FLOOR_BUNDLE/./"); }
  bring "$2" "${what[@]}" "$work/./own"
  on "$2" "$FLOOR_REGISTRY" "$FLOOR_ARTIFACTS" "$master" "$packages" <"$here/node.sh"
}
pull() { # name, address: what the node will run, at the same time
  local wanted='pause|kube-proxy|flannel'
  [ "$2" != "$master" ] || wanted='pause|kube-|etcd|coredns|flannel'
  printf '%s\n' "${images[@]}" | grep -E "^($wanted)" | sed "s|^|$FLOOR_REGISTRY/|" |
    ssh "${options[@]}" "$FLOOR_LOGIN@$2" sudo -n xargs -n 1 -P 3 docker pull -q >/dev/null
}
join() { on "$2" <<<"/usr/local/bin/$command --ignore-preflight-errors=$FLOOR_IGNORE >/dev/null"; }

each prepare "${all[@]}"
told "packages, programs and Docker on every node"
mapfile -t images < <(on "$master" "$FLOOR_REGISTRY" <"$here/push.sh")
told "images in the registry"
each pull "${all[@]}"
told "images on the nodes"
command=$(on "$master" "$FLOOR_IGNORE" <"$here/master.sh")
told "control plane and flannel"
each join "${workers[@]}"
told "workers joined"
on "$master" <<'EOF'
kubectl() { /usr/local/bin/kubectl --kubeconfig=/etc/kubernetes/admin.conf "$@" >/dev/null; }
kubectl wait --for=condition=Ready node --all --timeout=180s
kubectl -n kube-flannel rollout status daemonset/kube-flannel-ds --timeout=180s
kubectl -n kube-system rollout status daemonset/kube-proxy --timeout=180s
kubectl -n kube-system rollout status deployment/coredns --timeout=180s
EOF
told "nodes and their pods Ready"
