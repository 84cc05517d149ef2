"""How long a backup of a lab takes beyond the bare dump, and a support bundle of its nodes.

``python -m tests.benchmarks.backing_up --site DIR [--rounds 3]``: root, podman, and an installed
lab whose site.yml has the section ``backup``. The bare dump runs on the same node, with etcd's own
programs: a snapshot, and its restore into a scratch folder; with Run:ai, ``pg_dumpall``, too. It
asserts nothing.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from appliance.adapters.site.files import load_site
from appliance.model.site.settings import Node
from tests.benchmarks.measured import measure

BEYOND_SECONDS = 10.0
SUPPORT_SECONDS = 15.0
PKI = "/etc/kubernetes/pki/etcd"
CLIENT = f"--cacert {PKI}/ca.crt --cert {PKI}/server.crt --key {PKI}/server.key"
# As etcd's page has it, by the image that runs there.
DUMP = f"""
image=$(sed -n 's/^ *image: //p' /etc/kubernetes/manifests/etcd.yaml)
rm -rf /root/bench && mkdir -m 700 /root/bench
run="docker run --rm --network host -v /etc/kubernetes/pki:/etc/kubernetes/pki:ro -v /root:/root"
$run --entrypoint etcdctl "$image" {CLIENT} snapshot save /root/bench/snapshot.db >/dev/null 2>&1
$run --entrypoint etcdctl "$image" snapshot restore /root/bench/snapshot.db \\
  --data-dir /root/bench/restored >/dev/null 2>&1
rm -rf /root/bench
"""
DATABASES = """
export KUBECONFIG=/etc/kubernetes/admin.conf
pod=$(kubectl -n runai-backend get pods -o name | grep postgres | head -n 1)
if [ -n "$pod" ]; then
  kubectl -n runai-backend exec "$pod" -- sh -c \\
    'PGPASSWORD=${POSTGRES_PASSWORD:-$POSTGRESQL_PASSWORD} pg_dumpall -U postgres' >/dev/null
fi
"""


def bare(node: Node, script: str) -> float:
    """Run a script as root in a node of the lab; seconds."""
    began = time.monotonic()
    words = ["podman", "exec", node.name, "sh", "-ec", script]
    subprocess.run(words, check=True, timeout=900, capture_output=True)
    return time.monotonic() - began


def main() -> None:
    """Print the times, and what a backup takes beyond the dump."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--site", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    site = load_site(asked.site)
    dumps, backups, bundles = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        where = ["--site", str(asked.site)]
        for number in range(asked.rounds):
            floor = bare(site.control_plane[0], DUMP)
            if site.settings.runai is not None:
                floor += bare(site.vendor_node, DATABASES)
            dumps.append(floor)
            words = ["appliance", "cluster", "backup", "create", "--to", folder, "--yes", *where]
            backups.append(measure(words).seconds)
            out = str(Path(folder, f"support-{number}.tar.gz"))
            words = ["appliance", "support", "bundle", "--to", out, *where]
            bundles.append(measure(words).seconds)
    dump, backup = statistics.median(dumps), statistics.median(backups)
    result = {
        "dump": round(dump, 1),
        "backup": round(backup, 1),
        "beyond": round(backup - dump, 1),
        "beyond_target": BEYOND_SECONDS,
        "ratio": round(backup / dump, 2),
        "support_bundle": round(statistics.median(bundles), 1),
        "support_target": SUPPORT_SECONDS,
        "nodes": len(site.nodes),
    }
    sys.stdout.write(f"{json.dumps(result)}\n")


if __name__ == "__main__":
    main()
