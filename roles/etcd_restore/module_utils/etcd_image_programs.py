"""Take etcd's programs out of its image, without a running container.

Both runtimes write an image as a tar of layers, each a tar itself; the last one that has a program
counts. It is read as a stream, so no copy of the image lies on the disk. Python 3.8, standard
library. What must not be here: what the programs are started for.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

from ansible.module_utils import appliance_programs

ETCD, RESTORERS = "etcd", ("etcdutl", "etcdctl")
NAMES = (ETCD, *RESTORERS)
FLAGS = Path("/var/lib/kubelet/kubeadm-flags.env")
SECONDS = 120
MOST_BYTES = 256 << 20
IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,300}\Z")


class ImageError(Exception):
    """The programs are not to be had; the text has the reason."""


def extract(image, folder):
    """Return {"etcd": path, "restorer": path} of programs in a folder of ours.

    Args:
        image: as the manifest of etcd names it.
        folder: of ours; programs that lie there already are used.

    Raises:
        ImageError: the runtime has no such image, or it has no program that restores.
    """
    if not IMAGE.match(image):
        raise ImageError("the manifest of etcd names an image of another form: %r" % image[:80])
    if not _found(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _export(image, folder)
    found = _found(folder)
    if not found:
        raise ImageError("the image %s has no etcd with etcdutl or etcdctl" % image)
    return found


def _found(folder):
    restorers = [folder / name for name in RESTORERS if (folder / name).is_file()]
    if not restorers or not (folder / ETCD).is_file():
        return {}
    return {"etcd": folder / ETCD, "restorer": restorers[0]}


def _command(image):
    """Return what writes the image to its output."""
    text = FLAGS.read_text() if FLAGS.is_file() else ""
    if "containerd.sock" in text:
        return ["ctr", "--namespace", "k8s.io", "images", "export", "-", image]
    return ["docker", "save", image]


def _export(image, folder):
    argv = ["timeout", "--kill-after=5", str(SECONDS), *_command(image)]
    environment = dict(os.environ, PATH=appliance_programs.SEARCH_PATH)
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )
    try:
        with tarfile.open(fileobj=process.stdout, mode="r|") as image_tar:
            for layer in image_tar:
                if layer.isfile():
                    _from_layer(image_tar.extractfile(layer), folder)
        # The rest of the stream, so that the runtime ends well.
        while process.stdout.read(1 << 20):
            pass
    except tarfile.TarError as error:
        said = process.stderr.read(4096).decode("utf-8", "replace").strip()
        raise ImageError("%s: %s" % (image, said[-300:] or error)) from error
    finally:
        process.terminate()
        process.wait(SECONDS)
        process.stdout.close()
        process.stderr.close()


def _from_layer(stream, folder):
    try:
        with tarfile.open(fileobj=stream, mode="r|*") as layer:
            for entry in layer:
                name = entry.name.rpartition("/")[2]
                if name in NAMES and entry.isfile() and "/bin/" in "/" + entry.name:
                    _write(layer.extractfile(entry), entry, folder / name)
    except (tarfile.TarError, EOFError):
        return  # the image's own description


def _write(stream, entry, path):
    if entry.size > MOST_BYTES:
        raise ImageError("%s in the image has %d bytes" % (entry.name, entry.size))
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    handle = os.open(str(new), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700)
    with os.fdopen(handle, "wb") as target:
        shutil.copyfileobj(stream, target, 1 << 20)
    new.replace(path)
