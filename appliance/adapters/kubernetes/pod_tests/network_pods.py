"""The pods of the network test: what runs in them, and the objects that make them.

Each answers HTTP with busybox, and says what it reaches when it is asked for
``/cgi-bin/check/WORDS`` or ``/cgi-bin/names/WORDS``. WORDS are parted by commas:
``pod=NODE=ADDRESS``, ``service=ADDRESS`` and ``name=NAME`` to be checked, or plain names to be
resolved. An answer's last line is a full stop: one that was cut off is none.
"""

from __future__ import annotations

from typing import Any

PORT = 8080
END = "."
# How long a pod takes to answer at most: a name is asked for twice.
ANSWER_SECONDS = 12
LABELS = {"proof": "answer"}

_HEAD = r"""#!/bin/busybox sh
printf 'Content-Type: text/plain\r\n\r\n'
words=$(echo "${PATH_INFO#/}" | tr , ' ')
# Its exit status is of no use: older ones end with 0 when there is no such name.
addresses() { timeout 6 nslookup "$1" 2>/dev/null | sed -n '/^Name:/,$s/^Address[^:]*: *//p'; }
"""
CHECK = (
    _HEAD
    + r"""
# nc, because wget of a static busybox dies in glibc's name service, which a bare image lacks. Its
# own -w is for the connection alone.
get() { printf 'GET / HTTP/1.0\r\n\r\n' | timeout 4 nc -w 3 "$1" 8080 | grep -q '200 OK'; }
resolve() { [ -n "$(addresses "$1")" ]; }
for word in $words; do
  case $word in
    *=-*) echo "$word" ;;
    name=*) resolve "${word#*=}" || echo "$word" ;;
    *) get "${word##*=}" || echo "$word" ;;
  esac &
done
wait
echo .
"""
)
NAMES = (
    _HEAD
    + r"""
ask() { found=$(addresses "$1"); echo "= $1" ${found:-$(addresses "$1")}; }
for name in $words; do ask "$name" & done
wait
echo .
"""
)
_SERVE = f"""
mkdir -p /www/cgi-bin && echo here >/www/index.html && cd /www/cgi-bin
printf '%s' "$CHECK" >check && printf '%s' "$NAMES" >names && chmod 755 check names
exec httpd -f -p {PORT} -h /www
"""


def sentence(word: str) -> str:
    """What it means that a pod did not reach the target of a word."""
    kind, _, target = word.partition("=")
    if kind == "pod":
        node, _, address = target.partition("=")
        return f"no answer from the pod on {node} ({address})"
    if kind == "service":
        return f"no answer from the service address {target}"
    return f"the cluster's DNS does not resolve {target}"


def service() -> dict[str, Any]:
    """The service in front of all pods."""
    return {
        "metadata": {"name": "proof"},
        "spec": {"selector": LABELS, "ports": [{"port": PORT, "targetPort": PORT}]},
    }


def daemon_set(image: str) -> dict[str, Any]:
    """A pod on each node, whatever its taints; the node's kubelet has to reach it, too."""
    container = {
        "name": "answer",
        "image": image,
        "imagePullPolicy": "Always",
        "command": ["/bin/busybox", "sh", "-c", _SERVE],
        "env": [{"name": "CHECK", "value": CHECK}, {"name": "NAMES", "value": NAMES}],
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
    }
    pod = {
        "terminationGracePeriodSeconds": 0,
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
    }
    return {
        "metadata": {"name": "answer", "labels": LABELS},
        "spec": {
            "selector": {"matchLabels": LABELS},
            "template": {"metadata": {"labels": LABELS}, "spec": pod},
        },
    }
