#!/usr/bin/python3
"""STANDIN for NVIDIA's packages and a kernel's headers, as an apt repository in a folder.

Names and dependencies are those of NVIDIA's repository for Ubuntu 20.04, as far as role gpu_driver
meets them. Their programs are ``driver_standin.py``, which lies beside this file.

Usage: driver_packages_standin.py FOLDER
"""

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

DRIVER = "535.183.06"
UNIT = """[Unit]
Description=STANDIN for NVIDIA's fabric manager
[Service]
ExecStart=/bin/sleep infinity
[Install]
WantedBy=multi-user.target
"""
PROGRAMS = ("/usr/sbin/dkms", "/usr/local/sbin/modinfo", "/usr/local/sbin/modprobe")
# Name -> (version, dependencies, files).
PACKAGES = {
    "cuda-drivers-fabricmanager-535": (
        DRIVER + "-1",
        f"cuda-drivers-535 (= {DRIVER}-1), nvidia-fabricmanager-535 (= {DRIVER}-1)",
        {},
    ),
    "cuda-drivers-535": (DRIVER + "-1", "nvidia-driver-535, nvidia-dkms-535", {}),
    "nvidia-driver-535": (DRIVER + "-1", "libnvidia-compute-535", {}),
    "libnvidia-compute-535": (DRIVER + "-1", "", {}),
    "nvidia-dkms-535": (DRIVER + "-1", "dkms", {"/usr/src/nvidia-standin/version": DRIVER + "\n"}),
    "nvidia-fabricmanager-535": (
        DRIVER + "-1",
        "",
        {"/lib/systemd/system/nvidia-fabricmanager.service": UNIT},
    ),
    "dkms": ("2.8.1-5ubuntu2", "", {}),
    "nvidia-container-toolkit": ("1.17.8-1", "nvidia-container-toolkit-base (= 1.17.8-1)", {}),
    "nvidia-container-toolkit-base": ("1.17.8-1", "", {}),
    "linux-headers-5.4.0-216-generic": ("5.4.0-216.236", "", {}),
    "linux-headers-5.4.0-215-generic": ("5.4.0-215.235", "", {}),
}


def content(name):
    """Return path -> text of the files of a package."""
    files = dict(PACKAGES[name][2])
    if name == "dkms":
        program = Path(__file__).with_name("driver_standin.py").read_text()
        files.update(dict.fromkeys(PROGRAMS, program))
    if name.startswith("linux-headers-"):
        files[f"/usr/src/{name}/STANDIN"] = "no headers\n"
    return files


def build(name, folder):
    """Build one package; return its paragraph of the index."""
    version, depends, _ = PACKAGES[name]
    control = f"Package: {name}\nVersion: {version}\nArchitecture: all\n"
    control += "Maintainer: STANDIN <standin@example.invalid>\n"
    control += f"Depends: {depends}\n" if depends else ""
    control += f"Description: STANDIN for {name}\n"
    with tempfile.TemporaryDirectory() as root:
        for path, text in {"/DEBIAN/control": control, **content(name)}.items():
            place = Path(root + path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
            place.chmod(0o755 if path in PROGRAMS else 0o644)
        Path(root).chmod(0o755)
        package = Path(folder, name + ".deb")
        subprocess.run(["/usr/bin/dpkg-deb", "--build", root, str(package)], check=True)  # noqa: S603 - our own words
    raw = package.read_bytes()
    digest = hashlib.sha256(raw).hexdigest()
    return control + f"Filename: ./{package.name}\nSize: {len(raw)}\nSHA256: {digest}\n"


def main(folder):
    """Build all of them, and the index last."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    index = "\n".join(build(name, folder) for name in sorted(PACKAGES))
    Path(folder, "Packages").write_text(index)


if __name__ == "__main__":
    main(sys.argv[1])
