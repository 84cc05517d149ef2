"""A host whose settings are brought: its files, its programs, and what was changed.

Python 3.8, standard library. What must not be here: which settings a host needs.
"""

from __future__ import annotations

from pathlib import Path

from ansible.module_utils.appliance_files import write
from ansible.module_utils.appliance_programs import SECONDS, runner

HEADER = "# Written by appliance; changes are overwritten.\n"
SYSCTL_FILE = "/etc/sysctl.d/90-appliance.conf"
BEGIN, END = "# BEGIN appliance", "# END appliance"


class SettingsError(Exception):
    """A setting cannot be brought; the sentence says what to do."""


class Host:
    """Files below a root, programs, and a list of changes with what ``--diff`` shows of each."""

    def __init__(self, run, check_mode, root="/"):
        self.run = run
        self.check_mode = check_mode
        self.root = Path(root)
        self.changes = []
        self.differences = []

    def path(self, name):
        """Return a path below the root."""
        return self.root / str(name).lstrip("/")

    def read(self, name):
        """Return the text of a file, or an empty string where there is none.

        Raises:
            SettingsError: it is there and cannot be read: it is not taken for an empty one.
        """
        try:
            # A comment in another encoding stays byte for byte.
            return self.path(name).read_text(encoding="utf-8", errors="surrogateescape")
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except OSError as error:
            raise SettingsError("%s cannot be read: %s" % (name, error.strerror)) from error

    def note(self, sentence):
        """Note a change that is not one of a file's content."""
        self.changes.append(sentence)
        self.differences.append({"prepared": sentence + "\n"})

    def write(self, name, text, why, mode=0o644):
        """Bring a file to a text, atomically; a new one gets the mode."""
        before = self.read(name)
        if before == text and self.path(name).exists():
            return
        self.changes.append("%s: %s" % (name, why))
        self.differences.append(
            {
                "before_header": name,
                "after_header": name,
                "before": only(before, text),
                "after": only(text, before),
            }
        )
        if self.check_mode:
            return
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, text, path.stat().st_mode & 0o7777 if path.exists() else mode)

    def save(self, name, backup):
        """Keep a copy of a file, as private as the file; its content is in no diff."""
        self.note("%s: backup of %s" % (backup, name))
        if not self.check_mode:
            changes, differences = list(self.changes), list(self.differences)
            self.write(backup, self.read(name), "backup", self.path(name).stat().st_mode & 0o7777)
            self.changes, self.differences = changes, differences

    def act(self, why, argv):
        """Run a program that changes something, and note it."""
        self.note(why)
        if self.check_mode:
            return
        rc, out, err = self.run(argv)
        if rc != 0:
            raise SettingsError("%s failed: %s" % (" ".join(argv), (err or out).strip()))


def only(text, other):
    """Return the lines that another text does not have: a diff tells no password of the rest."""
    there = set(other.splitlines())
    lines = [line + "\n" for line in text.splitlines() if line not in there]
    return "".join(lines).encode(errors="replace").decode()


def settle(module, bring, seconds=SECONDS):
    """Bring settings by ``bring(host, parameters)``, and end the module with what was changed."""
    host = Host(runner(module, seconds), module.check_mode)
    try:
        bring(host, module.params)
    except (SettingsError, OSError) as error:
        module.fail_json(msg=str(error), changes=host.changes)
    module.exit_json(changed=bool(host.changes), changes=host.changes, diff=host.differences)
