"""A module's start on a node: handed to the server of this login session, or done here.

What is sent to the node's Python in place of a module: this source, the server's, and the module,
which ``PROGRAM`` holds. Only what every Python has loaded anyway is imported, since the time that
this takes is what each task pays. On any doubt the module runs here, as Ansible would have it.
"""

import os
import sys

sys.path = [place for place in sys.path if place not in ("", ".")]
import _socket  # noqa: E402 - `socket` itself takes longer than the rest of this file
import zlib  # noqa: E402

PROGRAM = SERVER = b""
# Longer than a busy node takes to answer; then the module runs here, and the server never runs it.
ANSWER_SECONDS = 5
_LANGUAGE = (b"LC_", b"LANG", b"PYTHON", b"TZ")


def read(path):
    """A small file of /proc."""
    with open(path, "rb") as stream:
        return stream.read()


def login_session():
    """The sshd that this process descends from, as number and start, or None."""
    pid = os.getppid()
    while pid > 1:
        head, _, tail = read("/proc/%d/stat" % pid).rpartition(b")")
        fields = tail.split()
        if head.partition(b"(")[2].startswith(b"sshd"):
            return pid, int(fields[19])
        pid = int(fields[1])
    return None


def surroundings():
    """What a module inherits that has to be the same in the server, as text to compare."""
    program = os.stat(sys.executable)
    return repr((
        sys.executable, program.st_ino, program.st_mtime_ns,
        os.getresuid(), os.getresgid(), sorted(os.getgroups()), os.nice(0),
        read("/proc/self/limits"), read("/proc/self/cgroup"), read("/proc/self/oom_score_adj"),
        os.readlink("/proc/self/ns/mnt"), os.readlink("/proc/self/ns/net"),
        sorted(pair for pair in os.environb.items() if pair[0].startswith(_LANGUAGE)),
    )).encode()  # fmt: skip


def folder():
    """Where the sockets of this user are, made if it is absent; None where it is not safe."""
    user = os.geteuid()
    base = "/run/user/%d" % user if user else "/run"
    path = base + "/appliance-modules"
    if not os.path.isdir(path):
        os.mkdir(path, 0o700)
    about = os.lstat(path)
    return path if (about.st_mode, about.st_uid) == (0o40700, user) else None


def connected(path, prefix):
    """A connection to a server of this session and these surroundings, or None."""
    for name in os.listdir(path):
        if not name.startswith(prefix):
            continue
        server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        server.settimeout(ANSWER_SECONDS)
        try:
            server.connect(path + "/" + name)
        except (ConnectionRefusedError, FileNotFoundError):
            # It ended; the next server removes what it left.
            continue
        peer = server.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
        if int.from_bytes(peer[4:8], sys.byteorder) == os.geteuid():
            return server
    return None


def start_server(path, prefix, session):
    """Start one for the next task; it has nothing of this one but the utilities of Ansible."""
    # The last of the wrapper's arguments: a parameter may hold any text.
    utilities = PROGRAM.rpartition(b"\nzip_data='")[2].partition(b"'")[0]
    given = (path, prefix, session, surroundings(), utilities)
    source = os.memfd_create("server")
    rest = SERVER + b"\nserve(*%r)\n" % (given,)
    while rest:
        rest = rest[os.write(source, rest) :]
    os.lseek(source, 0, os.SEEK_SET)
    kept = {name: text for name, text in os.environb.items() if name.startswith(_LANGUAGE)}
    os.posix_spawn(
        sys.executable, [sys.executable, "-"], kept,
        file_actions=[
            (os.POSIX_SPAWN_DUP2, source, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ],
    )  # fmt: skip


def ask(server):
    """Hand the module over; False: the server does not run it, and never will."""
    umask = os.umask(0o77)
    os.umask(umask)
    environment = b"\0".join(b"=".join(pair) for pair in os.environb.items())
    parts = (surroundings(), environment, b"%d" % umask, PROGRAM)
    request = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    place = os.open(".", os.O_PATH)
    numbers = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2, place))
    try:
        server.sendmsg([b"m"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, numbers)])
        server.sendall(request)
        if server.recv(1) == b"r":
            return True
    except OSError:
        pass
    # From here on the server can say no more that it runs it; what it said before is still there.
    try:
        server.shutdown(_socket.SHUT_RD)
        server.settimeout(0)
        return server.recv(1) == b"r"
    except OSError:
        return False


def end(server):
    """Wait for the module, and end as it did."""
    server.settimeout(None)
    told = b""
    while len(told) < 4:
        piece = server.recv(4 - len(told))
        if not piece:
            os.write(2, b"the process that ran the module was killed\n")
            os._exit(1)
        told += piece
    status = int.from_bytes(told, "big", signed=True)
    if status < 0:
        os.kill(os.getpid(), -status)
    os._exit(status & 255)


def main():
    """Look for a server; whether the module is still to be run."""
    server = None
    try:
        session = login_session()
        path = session and folder()
        if not path:
            return True
        prefix = "%d-%d-%08x-" % (*session, zlib.crc32(surroundings()))
        server = connected(path, prefix)
        if server is None:
            start_server(path, prefix, session)
            return True
        if not ask(server):
            return True
    except (OSError, ValueError, AttributeError):
        return True
    end(server)
    return False
