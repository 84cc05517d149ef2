#!/bin/bash
# On the master, as root, one stage of runai.sh after the other: $1 the stage, the rest what it needs.
set -euo pipefail
export PATH=$PATH:/usr/local/bin KUBECONFIG=/etc/kubernetes/admin.conf
f=/opt/floor
helm=/var/lib/appliance/bundle/bin/helm

ready() { # namespace: every workload of it
  for kind in deployment statefulset daemonset; do
    for name in $(kubectl -n "$1" get $kind -o name); do kubectl -n "$1" rollout status "$name" --timeout=600s >/dev/null; done
  done
}
storage() { # the server's name
  mkdir -p /srv/runai/volume-{1..4}
  chown -R 1001:1001 /srv/runai && chmod -R 0777 /srv/runai
  install -D -m 644 $f/ganesha.conf /etc/ganesha/ganesha.conf
  systemctl restart nfs-ganesha
  for number in 1 2 3 4; do sed "s/@SERVER@/$1/; s/@NUMBER@/$number/" $f/runai_storage.yaml; done | kubectl apply -f - >/dev/null
}
gpu() { # how many each node offers, nodes
  kubectl create namespace gpu-operator >/dev/null
  kubectl -n gpu-operator create configmap appliance-driver-authority --from-file=appliance.crt=$f/ca.crt >/dev/null
  kubectl -n gpu-operator create configmap appliance-driver-packages --from-file=custom-repo.list=/etc/appliance/packages.list >/dev/null
  $helm upgrade --install gpu-operator /var/lib/appliance/bundle/charts/gpu-operator*.tgz -n gpu-operator -f $f/gpu.json >/dev/null
  read -ra nodes <<<"$2"
  for node in "${nodes[@]}"; do
    until [ "$(kubectl get node "$node" -o 'jsonpath={.status.allocatable.nvidia\.com/gpu}')" = "$1" ]; do sleep 0.5; done
  done
  until [ "$(kubectl get clusterpolicy -o 'jsonpath={.items[0].status.state}')" = ready ]; do sleep 0.5; done
}
bundle() { # the tar, the registry
  cd $f
  tar xf "$1"
  kubectl create namespace runai-backend >/dev/null
  cd deploy
  REGISTRY_URL=$2 ./prepare_installation.sh >/dev/null
}
backend() { # name, address, registry, system node, the DNS server, the NFS server
  kubectl label node "$4" node-role.kubernetes.io/runai-system= >/dev/null
  printf 'listen-address=%s\nbind-interfaces\nexcept-interface=lo\nno-resolv\nhost-record=%s,%s\n' "$5" "$1" "$2" >/etc/dnsmasq.d/floor.conf
  systemctl restart dnsmasq
  {
    kubectl -n kube-system get configmap coredns -o 'jsonpath={.data.Corefile}'
    printf '%s:53 {\n  errors\n  forward . %s\n}\n' "$1" "$5"
  } >$f/Corefile
  kubectl -n kube-system create configmap coredns --from-file=$f/Corefile --dry-run=client -o yaml | kubectl apply -f - >/dev/null 2>&1
  cd $f/deploy
  tar xf runai-admin-cli-*.tar.gz
  REGISTRY_URL=$3 ./runai-adm generate-values --domain "$1" --tls-cert $f/tls.crt --tls-key $f/tls.key --external-ips "$2" \
    --nfs-server "$6" --nfs-path /srv/runai --airgapped >/dev/null
  $helm upgrade --install runai-backend runai-backend-*.tgz -n runai-backend -f runai-backend-values.yaml >/dev/null
  ready runai-backend
}
cluster() { # the backend's name, the cluster's
  ask() { curl -sS --fail --retry 30 --retry-delay 1 --retry-all-errors --cacert $f/ca.crt "$@"; }
  token=$(ask "https://$1/auth/realms/runai/protocol/openid-connect/token" -d grant_type=password -d client_id=runai -d scope=openid \
    -d username=test@run.ai --data-urlencode "password@$f/password" | sed 's/.*"id_token": *"\([^"]*\)".*/\1/')
  printf 'header = "Authorization: Bearer %s"\n' "$token" >$f/login
  uuid=$(ask -K $f/login "https://$1/v1/k8s/clusters" -H 'Content-Type: application/json' -d "{\"name\":\"$2\",\"description\":\"$2\"}" |
    sed 's/.*"uuid": *"\([^"]*\)".*/\1/')
  ask -K $f/login "https://$1/v1/k8s/clusters/$uuid/installfile?cloud=op" >$f/cluster.yaml
  kubectl create namespace runai >/dev/null
  kubectl -n runai create configmap appliance-ca --from-file=ca.pem=$f/ca.crt >/dev/null
  $helm upgrade --install runai-cluster $f/deploy/runai-cluster-*.tgz -n runai -f $f/cluster.yaml >/dev/null
  kubectl -n runai patch deployment runai-agent --patch "$(agent_trust)" >/dev/null
  ready runai
  until ask -K $f/login "https://$1/v1/k8s/clusters/$uuid" | grep -q '"connected"'; do sleep 0.5; done
}
agent_trust() { # as pod_trust does it
  printf '%s' '{"spec":{"template":{"spec":{"volumes":[{"name":"appliance-ca","configMap":{"name":"appliance-ca"}}],' \
    '"containers":[{"name":"agent","volumeMounts":[{"name":"appliance-ca","subPath":"ca.pem",' \
    '"mountPath":"/etc/ssl/certs/appliance-ca.pem"}]}]}}}}'
}
roles() { # nodes
  read -ra nodes <<<"$1"
  kubectl label node "${nodes[@]}" node-role.kubernetes.io/runai-gpu-worker= >/dev/null
  kubectl -n runai patch runaiconfig runai --type merge \
    -p '{"spec":{"global":{"nodeAffinity":{"restrictScheduling":true,"restrictRunaiSystem":true}}}}' >/dev/null
}
access() { # the backend's name
  cp $f/ca.crt /etc/kubernetes/pki/floor-oidc-ca.crt
  flags=(client-id=runai "issuer-url=https://$1/auth/realms/runai" ca-file=/etc/kubernetes/pki/floor-oidc-ca.crt username-prefix=-)
  manifest=/etc/kubernetes/manifests/kube-apiserver.yaml
  cp $manifest $f/kube-apiserver.yaml
  for flag in "${flags[@]}"; do sed -i "/^    - kube-apiserver$/a\\    - --oidc-$flag" $f/kube-apiserver.yaml; done
  mv $f/kube-apiserver.yaml $manifest
  until pgrep -f "kube-apiserver .*--oidc-issuer-url" >/dev/null && [ "$(kubectl get --raw /readyz 2>/dev/null)" = ok ]; do sleep 0.3; done
  kubectl -n kube-system get configmap kubeadm-config -o yaml |
    sed "s|^\( *\)extraArgs:|&\n\1  oidc-issuer-url: https://$1/auth/realms/runai\n\1  oidc-client-id: runai|" | kubectl apply -f - >/dev/null 2>&1
}
"$@"
