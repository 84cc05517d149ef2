#!/bin/bash
# STANDIN of the vendor's script, whose content is not public: loads the images of this folder,
# tags them for REGISTRY_URL and pushes them there.
set -euo pipefail
cd "$(dirname "$0")"
: "${REGISTRY_URL:?STANDIN: set it to NAME:PORT of the registry}"
if [[ $REGISTRY_URL == http*://* ]]; then
    echo "STANDIN: REGISTRY_URL must not begin with a scheme: $REGISTRY_URL" >&2
    exit 1
fi
docker version >/dev/null
kubectl get namespace runai-backend >/dev/null
for archive in images/*; do
    echo "STANDIN: loading $archive"
    docker load --quiet --input "$archive" | sed -n 's/^Loaded image: //p' |
        while read -r image; do
            target="$REGISTRY_URL/${image#*/}"
            echo "STANDIN: pushing $target"
            docker tag "$image" "$target"
            docker push --quiet "$target" >/dev/null
        done
done
if compgen -G "control-plane-*.tgz" >/dev/null; then
    printf 'global:\n  image: {registry: "%s"}\n' "$REGISTRY_URL" >custom-env.yaml
fi
echo "STANDIN: all images are in $REGISTRY_URL"
