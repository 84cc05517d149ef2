"""A canary of every class of secret that the product meets, each in a line that shows it."""

from __future__ import annotations

from base64 import b64encode

CANARY = "Canary7hunter2Zq"
_BODY = b64encode((CANARY * 6).encode()).decode()
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{CANARY}\n{_BODY}\n-----END RSA PRIVATE KEY-----"
JWT = f"eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhZGEifQ.{CANARY}"
GOOGLE = "AIzaSyCanaryCanaryCanaryCanary01234567"
# Class -> (the secret as it must not be told, a text in which it stands).
CLASSES: dict[str, tuple[str, str]] = {
    "vault value": (CANARY, f"vault_runai_admin_password: {CANARY}"),
    "vault file": (
        "6133326430613332",
        "$ANSIBLE_VAULT;1.1;AES256\n61333264306133326233313239646139613332643061\n3431\nafter",
    ),
    "join token": ("0123456789canary", "kubeadm join api:6443 --token abcdef.0123456789canary"),
    "certificate key": (CANARY, f"kubeadm init --certificate-key {CANARY}"),
    "PEM key": (CANARY, f"{PEM}\nafter"),
    "PEM key in a log": (CANARY, PEM.replace("\n", "\nNov 26 10:00:00 cp1 kubelet[7]: ")),
    "PEM key in JSON": (CANARY, '{"tls.key": "' + PEM.replace("\n", "\\n") + '"}'),
    "body of a key": (_BODY[:40], f"cp1 kubelet[7]: {_BODY}"),
    "key without its end": (CANARY, f"-----BEGIN PRIVATE KEY-----\n{CANARY}\nmore"),
    "kubeconfig": (CANARY, f"users:\n- name: admin\n  user:\n    client-key-data: {CANARY}"),
    "kubeconfig's token": (CANARY, f"    token: {CANARY}"),
    "docker login": (CANARY, f'{{"auths": {{"registry:5000": {{"auth": "{CANARY}"}}}}}}'),
    "pull secret": (CANARY, f"  .dockerconfigjson: {CANARY}"),
    "bearer header": (CANARY, f"curl -H 'Authorization: Bearer {CANARY}' https://api"),
    "basic header": (CANARY, f"> authorization: Basic {CANARY}"),
    "cookie": (CANARY, f"< set-cookie: session={CANARY}; Path=/"),
    "URL login": (CANARY, f"pulling https://ada:{CANARY}@registry.test:5000/v2/"),
    "curl's login": (CANARY, f"curl -u ada:{CANARY} https://registry"),
    "environment": (CANARY, f"RUNAI_DB_PASSWORD={CANARY}"),
    "environment of a pod": (CANARY, f'{{"name":"DB_PASSWORD","value":"{CANARY}"}}'),
    "environment in YAML": (CANARY, f"  - name: DB_PASSWORD\n    value: {CANARY}\n  - name: A"),
    "environment in Docker": (CANARY, f'"Env": ["POSTGRES_PASSWORD={CANARY}", "PATH=/bin"]'),
    "option": (CANARY, f"helm login --username ada --password {CANARY}"),
    "htpasswd": (CANARY, f"push:$2y$05${CANARY}"),
    "SSHA": (CANARY, f"userPassword: {{SSHA}}{CANARY}"),
    "JWT": (CANARY, f"rejected {JWT} of ada"),
    "Helm values": (CANARY, f"global:\n  auth:\n    adminPassword: {CANARY}\n    user: ada\n"),
    "YAML block": (CANARY, f"password: |\n  {CANARY}\nnext: 1"),
    "JSON in JSON": (CANARY, '{"log": "{\\"password\\":\\"' + CANARY + '\\"}"}'),
    "AWS key": ("AKIAIOSFODNN7CANARY1", "using AKIAIOSFODNN7CANARY1 of the bucket"),
    "AWS secret": (CANARY, f"aws_secret_access_key = {CANARY}"),
    "Azure key": (CANARY, f"DefaultEndpointsProtocol=https;AccountKey={CANARY}==;Suffix=x"),
    "Google key": (GOOGLE, f"using {GOOGLE}"),
    "GitHub token": ("ghp_CanaryCanaryCanaryCanary0123", "with ghp_CanaryCanaryCanaryCanary0123"),
    "NGC key": ("nvapi-CanaryCanaryCanary0123", "login $oauthtoken nvapi-CanaryCanaryCanary0123"),
    "age key": ("CANARYCANARY0123", "AGE-SECRET-KEY-1CANARYCANARY0123"),
    "client secret": (CANARY, f'"clientSecret": "{CANARY}"'),
}  # fmt: skip
# Lines of logs that hold no secret, and stay word for word.
HARMLESS = (
    'MountVolume.SetUp failed for volume "tls" : secret "runai-tls" not found',
    "E1126 10:00:00.123456 71 pod_workers.go:190] Error syncing pod, skipping: CrashLoopBackOff",
    'Failed to pull image "registry.rack.test:5000/busybox@sha256:' + "ab12" * 16 + '": timed out',
    "/var/lib/docker/overlay2/" + "ab12" * 16 + "/merged: no space left on device",
    "x509: certificate has expired or is not yet valid: current time 2026-11-26T10:00:00Z",
    "--tls-private-key-file=/etc/kubernetes/pki/apiserver.key --token-ttl=24h0m0s",
    "secretName: runai-tls",
    "tests passed: 3",
    "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
)
