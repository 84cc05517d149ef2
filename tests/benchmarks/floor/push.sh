#!/bin/bash
# On the master, as root: every image of the layout into the registry, four at a time; prints name:tag of each. $1 NAME:PORT
set -euo pipefail
cd /opt/floor
for entry in $(python3 -c '
import json
for m in json.load(open("images/index.json"))["manifests"]:
    print("%s,%s,%d,%s" % (m["annotations"]["org.opencontainers.image.ref.name"], m["digest"], m["size"], m["mediaType"]))'); do
  IFS=, read -r name digest size type <<<"$entry"
  mkdir -p "push/$name"
  ln -s /opt/floor/images/blobs "push/$name/blobs"
  cp images/oci-layout "push/$name/"
  printf '{"schemaVersion":2,"manifests":[{"mediaType":"%s","digest":"%s","size":%s}]}' "$type" "$digest" "$size" >"push/$name/index.json"
  echo "$name"
done | tee push.list
xargs -P 4 -I @ env SSL_CERT_FILE=/opt/floor/own/tls.crt bin/crane push "push/@" "$1/@" <push.list >/dev/null 2>&1
