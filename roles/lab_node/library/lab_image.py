#!/usr/bin/python
"""Ansible module: build the image of a lab node once and keep it."""

from __future__ import annotations

import hashlib
import shlex
import tempfile
import time
from pathlib import Path

import yaml
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.lab_commands import CommandFailed, locked, podman, run, succeeds

DOCUMENTATION = r"""
module: lab_image
short_description: Make sure podman has the image of a lab node
description:
  - The image is named by its operating system and a digest over its recipe. It is built only when
    neither podman nor the cache has it.
options:
  recipe_dir:
    description: Folder with recipe.yml and rootfs/.
    type: path
    required: true
  operating_system:
    description: One of the recipe's systems.
    type: str
    required: true
  cache_dir:
    description: Folder of the built root file system.
    type: path
    required: true
  apt_sources:
    description: The apt sources to build from, as deb822 stanzas.
    type: list
    elements: str
    required: true
  apt_options:
    description: Lines of apt configuration for reaching them, such as a proxy.
    type: list
    elements: str
    default: []
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Have the image
  lab_image:
    recipe_dir: appliance/lab/node
    operating_system: debian-12
    cache_dir: /var/cache/appliance/lab
    apt_sources: ["{{ lookup('ansible.builtin.file', '/etc/apt/sources.list.d/debian.sources') }}"]
"""

RETURN = r"""
image:
  description: Name and tag of the image.
  type: str
  returned: success
source:
  description: Its source; podman, cache or built.
  type: str
  returned: success
seconds:
  description: How long it took.
  type: float
  returned: success
"""

# Part of the digest: raise it when the build below changes its result.
BUILD_VERSION = "2"
# What a merged /usr holds, as debootstrap lays it out before the first package is unpacked.
MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")


def recipe_digest(recipe_dir):
    """Digest every file of the recipe: path, executable bit and content."""
    digest = hashlib.sha256(BUILD_VERSION.encode())
    for path in sorted(recipe_dir.rglob("*")):
        if path.is_file():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            executable = bool(path.stat().st_mode & 0o100)
            relative = path.relative_to(recipe_dir)
            digest.update("{0}\0{1}\0{2}\n".format(relative, executable, content).encode())
    return digest.hexdigest()


def merge_usr():
    """Compose the shell command that gives an empty root a merged /usr."""
    folders = " ".join('"$1/usr/{0}"'.format(name) for name in MERGED)
    links = " ".join('ln -s usr/{0} "$1/{0}";'.format(name) for name in MERGED)
    return "mkdir -p {0}; {1}".format(folders, links)


def build_command(rootfs, recipe, target, apt_sources, apt_options):
    """Compose the mmdebstrap call."""
    removed = " ".join('"$1/{0}"'.format(path) for path in recipe["removed_files"])
    masked = " ".join(shlex.quote(unit) for unit in recipe["masked_units"])
    hooks = [
        "sync-in {0} /".format(shlex.quote(str(rootfs))),
        'chroot "$1" useradd --create-home --shell /bin/bash {0}'.format(recipe["user"]),
        'chmod 0440 "$1"/etc/sudoers.d/*',
        'chmod 0755 "$1"/usr/local/sbin/* "$1"/usr/local/lib/appliance-lab/*',
        'systemctl --root="$1" mask {0}'.format(masked),
        'systemctl --root="$1" enable appliance-lab-boot.service',
        'rm -f "$1"/etc/ssh/ssh_host_* "$1/etc/hostname" {0}'.format(removed),
        ': > "$1/etc/machine-id"; mkdir -p "$1/etc/appliance-lab/facts"',
        # mmdebstrap keeps the options there; a node reaches no archive but the appliance's.
        'rm -f "$1/etc/apt/apt.conf.d/99mmdebstrap"',
    ]
    return [
        "mmdebstrap",
        "--mode=root",
        "--variant=minbase",
        "--format=tar",
        "--include=" + ",".join(recipe["packages"]),
        "--dpkgopt=force-unsafe-io",
        "--dpkgopt=path-exclude=/usr/share/man/*",
        "--dpkgopt=path-exclude=/usr/share/doc/*",
        *["--aptopt=" + option.rstrip(";") for option in apt_options],
        *(["--setup-hook=" + merge_usr()] if recipe["merged_usr"] else []),
        *["--customize-hook=" + hook for hook in hooks],
        recipe["suite"],
        str(target),
        str(apt_sources),
    ]


def stage(rootfs, target):
    """Copy the files as root's: a checkout may have any owner and umask."""
    for path in sorted(rootfs.rglob("*")):
        copy = target / path.relative_to(rootfs)
        if path.is_dir():
            copy.mkdir(mode=0o755)
            copy.chmod(0o755)
        else:
            copy.write_bytes(path.read_bytes())
            copy.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)


def read_recipe(params):
    """Read the recipe for one operating system; refuse one that it does not know."""
    path = params["recipe_dir"] / "recipe.yml"
    recipe = yaml.safe_load(path.read_text(encoding="utf-8"))
    if params["operating_system"] not in recipe["systems"]:
        raise CommandFailed(
            ["read", str(path)],
            1,
            "no lab node can run {0}; the recipe knows {1}".format(
                params["operating_system"], ", ".join(sorted(recipe["systems"]))
            ),
        )
    return dict(recipe, **recipe["systems"][params["operating_system"]])


def build(params, archive):
    """Build the root file system into the cache; an interrupted build leaves only a .partial."""
    recipe = read_recipe(params)
    partial = archive.with_suffix(".partial")
    if partial.exists():
        partial.unlink()
    with tempfile.TemporaryDirectory(prefix="appliance-lab-") as folder:
        staged, sources = Path(folder, "rootfs"), Path(folder, "debian.sources")
        Path(folder).chmod(0o755)
        staged.mkdir()
        staged.chmod(0o755)
        stage(params["recipe_dir"] / "rootfs", staged)
        sources.write_text("\n".join(params["apt_sources"]), encoding="utf-8")
        command = build_command(staged, recipe, partial, sources, params["apt_options"])
        run(command, timeout=1800)
    partial.rename(archive)


def main():
    """Find the image in podman, in the cache, or build it; in this order."""
    module = AnsibleModule(
        argument_spec={
            "recipe_dir": {"type": "path", "required": True},
            "operating_system": {"type": "str", "required": True},
            "cache_dir": {"type": "path", "required": True},
            "apt_sources": {"type": "list", "elements": "str", "required": True},
            "apt_options": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    params = dict(module.params, recipe_dir=Path(module.params["recipe_dir"]).resolve())
    started = time.monotonic()
    tag = params["operating_system"] + "-" + recipe_digest(params["recipe_dir"])[:12]
    image = "localhost/appliance-lab-node:" + tag
    cache = Path(params["cache_dir"])
    archive = cache / "node-{0}.tar".format(tag)
    if succeeds("image", "exists", image):
        module.exit_json(changed=False, image=image, source="podman", seconds=0.0)
    if module.check_mode:
        module.exit_json(changed=True, image=image, source="built", seconds=0.0)
    source = "cache"
    try:
        with locked(cache / "node.lock"):
            if not succeeds("image", "exists", image):
                if not archive.exists():
                    source = "built"
                    build(params, archive)
                podman("import", "--quiet", str(archive), image, timeout=600)
    except CommandFailed as problem:
        module.fail_json(msg="The image of a lab node could not be made: {0}".format(problem))
    module.exit_json(
        changed=True, image=image, source=source, seconds=round(time.monotonic() - started, 1)
    )


if __name__ == "__main__":
    main()
