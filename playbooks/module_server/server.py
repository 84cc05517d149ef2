"""Runs the modules of one login session, each in a process that has Ansible's utilities loaded.

The client beside it hands a module over: its source, its environment, where it stands, and its
standard streams. It ends with its login session, and when nothing came for a while.
"""

import base64
import contextlib
import gc
import io
import os
import socket
import struct
import sys
import time
import zipfile
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder

# As long as Ansible keeps its connection to a node (ControlPersist).
IDLE_SECONDS = 120
LOOK_SECONDS = 2
REQUEST_SECONDS = 10
MOST_BYTES = 64 << 20
ENTRY = "ansible.module_utils._internal._ansiballz._loader"
# How arguments and results are written: loaded by name, late in each module.
PROFILES = "ansible/module_utils/_internal/_json/_profiles/"
# Of the standard library, what Ansible's wrapper and most modules load.
USUAL = (
    "base64", "datetime", "glob", "json", "resource", "runpy", "shutil", "subprocess", "tempfile",
    "zipimport",
)  # fmt: skip


class Utilities(MetaPathFinder, Loader):
    """Ansible's utilities from memory, and later the rest of them from the module's own archive."""

    def __init__(self, archive):
        self.sources = {name: archive.read(name) for name in archive.namelist()}
        self.loaded = {}
        self.closed = False

    def find_spec(self, name, *_):
        """Where a module of Ansible is."""
        if name.partition(".")[0] != "ansible":
            return None
        if self.closed:
            # Ansible's wrapper puts the archive of its module in front.
            inner = name.split(".")[:-1]
            return PathFinder.find_spec(name, [os.path.join(sys.path[0], *inner)])
        for file, package in ((self._path(name), False), (self._path(name, "__init__"), True)):
            if file in self.sources:
                self.loaded[file] = self.sources[file]
                spec = ModuleSpec(name, self, origin=file, is_package=package)
                spec.has_location = True
                return spec
        return None

    def exec_module(self, module):
        """Run its source."""
        source = self.sources[module.__spec__.origin]
        exec(compile(source, module.__spec__.origin, "exec"), module.__dict__)

    def get_source(self, name):
        """For tracebacks, and for modules that start themselves with another Python."""
        for file in (self._path(name), self._path(name, "__init__")):
            if file in self.loaded:
                return self.loaded[file].decode()
        raise ImportError(name)

    def close(self):
        """From now on new ones come from a module's archive; what is loaded stays."""
        self.closed = True
        self.sources = {}

    @staticmethod
    def _path(name, *more):
        return "/".join((*name.split("."), *more)) + ".py"

    def fits(self, program):
        """Whether a module brings the same utilities, as far as they are loaded."""
        # The last of the wrapper's arguments: a parameter may hold any text.
        _, _, rest = program.rpartition(b"\nzip_data='")
        archive = zipfile.ZipFile(io.BytesIO(base64.b64decode(rest.partition(b"'")[0])))
        files = {info.filename: info for info in archive.infolist()}
        return self._path(ENTRY) in files and all(
            (files[name].file_size, files[name].CRC) == (len(source), zipfile.crc32(source))
            for name, source in self.loaded.items()
            if name in files
        )


def start_of(pid):
    """When a process began, in the kernel's ticks; None if it is gone."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as stream:
            return int(stream.read().rpartition(b")")[2].split()[19])
    except OSError:
        return None


def received(connection, surroundings, utilities):
    """A request's streams, environment, umask and module; None for what is not to be run here."""
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    if struct.unpack("3i", peer)[1] != os.geteuid():
        return None
    connection.settimeout(REQUEST_SECONDS)
    mark, extra, _, _ = connection.recvmsg(1, socket.CMSG_SPACE(16))
    numbers = struct.unpack("4i", extra[0][2]) if mark and extra else ()
    stream = connection.makefile("rb")
    parts = []
    for _ in range(4):
        size = int.from_bytes(stream.read(8), "big")
        if size > MOST_BYTES:
            return None
        parts.append(stream.read(size))
        if len(parts[-1]) < size:
            return None
    same, environment, umask, program = parts
    if len(numbers) != 4 or same != surroundings or not utilities.fits(program):
        return None
    return numbers, environment, int(umask), program


def become_module(request):
    """Stand where the client stands."""
    numbers, environment, umask, program = request
    for target, number in enumerate(numbers[:3]):
        os.dup2(number, target)
    os.fchdir(numbers[3])
    for number in numbers:
        os.close(number)
    os.umask(umask)
    os.environb.clear()
    os.environb.update(pair.partition(b"=")[::2] for pair in environment.split(b"\0"))
    time.tzset()
    sys.argv = [""]
    return program


def attend(connection, surroundings, utilities):
    """In a process of its own: start the module and tell the client how it ended.

    Returns:
        The module's program, in the process that is to run it; in this one it does not return.
    """
    try:
        request = received(connection, surroundings, utilities)
        if request is None:
            os._exit(0)
        # Who asked runs the module itself if this does not reach it.
        connection.sendall(b"r")
        # As after ssh, the module is in a session of its own and does not lead it.
        os.setsid()
        module = os.fork()
        if not module:
            connection.close()
            return become_module(request)
        for number in request[0]:
            os.close(number)
        _, status = os.waitpid(module, 0)
        code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        connection.sendall(code.to_bytes(4, "big", signed=True))
    except BaseException:
        os._exit(1)
    os._exit(0)


def wait(listening, session, surroundings, utilities):
    """Take clients until the session or the patience ends; a program in a module's process."""
    listening.settimeout(LOOK_SECONDS)
    until = time.monotonic() + IDLE_SECONDS
    running = set()
    while start_of(session[0]) == session[1] and (running or time.monotonic() < until):
        running = {pid for pid in running if os.waitpid(pid, os.WNOHANG) == (0, 0)}
        try:
            connection, _ = listening.accept()
        except OSError:
            continue
        try:
            pid = os.fork()
        except OSError:
            pid = None
        if pid == 0:
            listening.close()
            return attend(connection, surroundings, utilities)
        connection.close()
        if pid:
            running.add(pid)
        until = time.monotonic() + IDLE_SECONDS
    return None


def sweep(path):
    """Remove what killed servers left: a name holds the process and its start, as no other does."""
    for name in os.listdir(path):
        pid, start = name.rsplit("-", 2)[1:]
        if start_of(int(pid)) != int(start):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path + "/" + name)


def serve(path, prefix, session, surroundings, archive):
    """Load the utilities, then listen."""
    sys.path = [place for place in sys.path if place not in ("", ".")]
    os.setsid()
    os.chdir("/")
    os.umask(0o177)
    os.closerange(3, 1024)
    utilities = Utilities(zipfile.ZipFile(io.BytesIO(base64.b64decode(archive))))
    sys.meta_path.insert(0, utilities)
    profiles = [name for name in utilities.sources if name.startswith(PROFILES)]
    for name in (*USUAL, ENTRY, *(file[:-3].replace("/", ".") for file in profiles)):
        if not name.endswith("__init__"):
            __import__(name)
    utilities.close()
    gc.collect()
    gc.freeze()
    sweep(path)
    name = "%s/%s%d-%d" % (path, prefix, os.getpid(), start_of(os.getpid()))
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(name)
    listening.listen(16)
    program = wait(listening, session, surroundings, utilities)
    if program is None:
        os.unlink(name)
        with contextlib.suppress(OSError):
            os.rmdir(path)
        return
    main = type(sys)("__main__")
    sys.modules["__main__"] = main
    exec(compile(program, "<stdin>", "exec"), main.__dict__)
