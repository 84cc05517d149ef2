"""Restore a dump beside a database of the backend's server, and let the new one take its name.

A new database gets a name of ours and our comment. What was there keeps its rows under another name
of ours. Python 3.8, standard library. What must not be here: who may write meanwhile
(``appliance_restore_writers``), and in which order a restore goes (``appliance_restore_course``).
"""

from __future__ import annotations

import hashlib
import json
import re
import time

from ansible.module_utils import appliance_backup_database as trials
from ansible.module_utils import runai_dump as dumps

KEY = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,150}")
NEW, BEFORE = "appliance_restore_", "appliance_before_"
OURS = re.compile(r"appliance_(?:restore|before|verify)_[0-9a-f]{16}")
WORD = "appliance cluster restore "
MOST_NAMES, TOGETHER = 60, 50
TRIES, PAUSE_SECONDS = 20, 2
DATABASES = (
    "SELECT coalesce(json_agg(json_build_object('name', datname, 'comment', "
    "shobj_description(d.oid, 'pg_database'), 'bytes', pg_database_size(d.oid), 'owner', "
    "quote_ident(pg_get_userbyid(datdba)), 'encoding', pg_encoding_to_char(encoding), 'collate', "
    "quote_literal(datcollate), 'ctype', quote_literal(datctype), 'limit', datconnlimit)), '[]') "
    "FROM pg_database d WHERE NOT datistemplate"
)
TABLES = (
    "SELECT coalesce(json_agg(format('%I.%I', nspname, relname) ORDER BY 1), '[]') FROM pg_class c "
    "JOIN pg_namespace n ON n.oid = relnamespace WHERE relkind = 'r' AND nspname !~ '^pg_' AND "
    "nspname <> 'information_schema' AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.classid = "
    "'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')"
)
RIGHTS = (
    "SELECT coalesce(json_agg(format('GRANT %%s ON DATABASE \"%s\" TO %%s%%s', privilege_type, "
    "CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END, CASE WHEN "
    "is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)), 'null') FROM pg_database, "
    "aclexplode(datacl) WHERE datname = '%s' AND grantee <> datdba"
)
HAS_RIGHTS = "SELECT json_build_array(datacl IS NOT NULL) FROM pg_database WHERE datname = '%s'"
# Lists are quoted by PostgreSQL already; pg_dump knows the same names.
SETTINGS = (
    "SELECT coalesce(json_agg(format('ALTER %%s \"%s\" SET %%s TO %%s', CASE setrole WHEN 0 THEN "
    "'DATABASE' ELSE 'ROLE ' || quote_ident(pg_get_userbyid(setrole)) || ' IN DATABASE' END, "
    "quote_ident(split_part(one, '=', 1)), CASE WHEN split_part(one, '=', 1) IN "
    "('local_preload_libraries', 'search_path', 'session_preload_libraries', "
    "'shared_preload_libraries', 'temp_tablespaces', 'unix_socket_directories') THEN "
    "substr(one, strpos(one, '=') + 1) ELSE quote_literal(substr(one, strpos(one, '=') + 1)) END)),"
    " '[]') FROM pg_db_role_setting s JOIN pg_database d ON d.oid = setdatabase, unnest(setconfig) "
    "one WHERE datname = '%s'"
)
END_SESSIONS = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname IN (%s) AND pid "
    "<> pg_backend_pid()"
)


class RestoreError(Exception):
    """A database cannot be restored; the text has the reason."""


def new_of(key, name):
    """Return the name of the database that is restored, until it takes the name of the old one."""
    return NEW + _word(key, name)


def before_of(key, name):
    """Return the name under which the old database stays."""
    return BEFORE + _word(key, name)


def _word(key, name):
    return hashlib.sha256(("%s\n%s" % (key, name)).encode()).hexdigest()[:16]


def comment_of(key, name, what):
    """Return what we write on a database of ours."""
    return "%s%s: %s: %s" % (WORD, key, name, what)


def require_names(names):
    """Refuse names of databases that are none of Run:ai's.

    Raises:
        RestoreError: one is strange.
    """
    for name in names:
        if not dumps.PLAIN.fullmatch(name) or OURS.fullmatch(name) or len(name) > MOST_NAMES:
            raise RestoreError("%r is no name of a database that is restored" % name[:100])


class Databases:
    """The databases of the backend's server.

    Args:
        server: ``ask(database, statement)`` and ``load(database, dump)``.
        key: the word of the restore.

    Raises:
        RestoreError: the word is none.
    """

    sleep = staticmethod(time.sleep)

    def __init__(self, server, key):
        if not KEY.fullmatch(key):
            raise RestoreError("no word for a restore: %r" % key[:100])
        self._server, self.key = server, key

    def _json(self, database, statement):
        lines = self._server.ask(database, statement)
        try:
            return json.loads("\n".join(lines))
        except ValueError as error:
            raise RestoreError("the database server does not answer in JSON: %s" % error) from error

    def known(self):
        """Return name -> what the server says of each database that is no template."""
        return {one["name"]: one for one in self._json("template1", DATABASES)}

    def rows(self, database):
        """Return table -> number of its rows now."""
        found, tables = {}, self._json(database, TABLES)
        for at in range(0, len(tables), TOGETHER):
            # Quoted by the server itself.
            some = enumerate(tables[at : at + TOGETHER])
            counts = ("'%d', (SELECT count(*) FROM ONLY %s)" % one for one in some)  # noqa: S608
            answer = self._json(database, "SELECT json_build_object(%s)" % ", ".join(counts))
            found.update((tables[at + int(number)], rows) for number, rows in answer.items())
        return found

    def is_whole(self, known, name, sha256):
        """Return whether the new database holds this very dump, compared."""
        seen = known.get(new_of(self.key, name)) or {}
        return seen.get("comment") == comment_of(self.key, name, "whole, sha256 " + sha256)

    def is_swapped(self, known, name):
        """Return whether the old database has stepped aside already: both happen at once."""
        return self._is_ours(known, before_of(self.key, name)) and name in known

    def ours(self, known):
        """Return the databases of any restore: those that are made, and those that are kept."""
        return sorted(name for name in known if self._is_ours(known, name))

    def _is_ours(self, known, name):
        """Our name, and our comment; none stands for a run that was killed in between."""
        if name not in known or not OURS.fullmatch(name) or name.startswith("appliance_verify_"):
            return False
        comment = known[name].get("comment")
        return comment is None or comment.startswith(WORD)

    def drop(self, name):
        """Drop a database: only one of our name, and with no comment but ours.

        Raises:
            RestoreError: it is not ours.
        """
        known = self.known()
        if name not in known:
            return
        if not self._is_ours(known, name):
            raise RestoreError("the database %s has no comment of ours: it stays" % name)
        self._server.ask("template1", END_SESSIONS % "'%s'" % name)
        self._server.ask("template1", 'DROP DATABASE "%s"' % name)

    def make(self, name):
        """Make the new database, with owner, encoding, rights and settings of the old one.

        Raises:
            RestoreError: the old one is not there.
        """
        new, known = new_of(self.key, name), self.known()
        if name not in known:
            raise RestoreError("the server has no database %s" % name)
        old = known[name]
        self.drop(new)
        words = "CREATE DATABASE \"%s\" TEMPLATE template0 OWNER %s ENCODING '%s' LC_COLLATE %s "
        words += "LC_CTYPE %s CONNECTION LIMIT %d"
        given = (old["owner"], old["encoding"], old["collate"], old["ctype"], int(old["limit"]))
        self._server.ask("template1", words % ((new, *given)))
        self._comment(new, comment_of(self.key, name, "is being restored"))
        (has_rights,) = self._json("template1", HAS_RIGHTS % name)
        rights = self._json("template1", RIGHTS % (new, name)) or []
        if has_rights:
            rights = ['REVOKE ALL ON DATABASE "%s" FROM PUBLIC' % new, *rights]
        for statement in [*rights, *self._json("template1", SETTINGS % (new, name))]:
            self._server.ask("template1", statement)
        return new

    def fill(self, name, dump, rows):
        """Run a dump in the new database, and compare rows.

        Raises:
            RestoreError: it has other rows.
            TrialError: a statement failed, or psql would act on a line of it.
        """
        new = new_of(self.key, name)
        self._server.load(new, dump)
        found = trials.counted(self._server, new, rows)
        for table in sorted(rows):
            if found[table] != rows[table]:
                told = (name, table, found[table], rows[table])
                raise RestoreError("%s: table %s has %d rows, and had %d" % told)

    def seal(self, name, sha256):
        """Note that the new database holds the dump of this sha256, compared."""
        self._comment(new_of(self.key, name), comment_of(self.key, name, "whole, sha256 " + sha256))

    def _comment(self, database, text):
        words = 'COMMENT ON DATABASE "%s" IS %s' % (database, _quoted(text))
        self._server.ask("template1", words)

    def due(self, names):
        """Return those that have not taken the name of the old one yet.

        Raises:
            RestoreError: one was not restored, or not compared.
        """
        known = self.known()
        todo = [name for name in names if not self.is_swapped(known, name)]
        for name in todo:
            comment = (known.get(new_of(self.key, name)) or {}).get("comment") or ""
            if not comment.startswith(comment_of(self.key, name, "whole, ")):
                raise RestoreError("%s: what was restored was not compared to its end" % name)
        return todo

    def swap(self, names):
        """Let all new databases take the names of the old ones at once; return those that did.

        Raises:
            RestoreError: one was not restored, or not compared; nothing was renamed.
            TrialError: sessions stay, or the server refuses; nothing was renamed.
        """
        known, todo = self.known(), self.due(names)
        if not todo:
            return []
        words = []
        for name in todo:
            new, before = new_of(self.key, name), before_of(self.key, name)
            comment = comment_of(self.key, name, "as it was before")
            words += [
                'ALTER DATABASE "%s" RENAME TO "%s"' % (name, before),
                'ALTER DATABASE "%s" RENAME TO "%s"' % (new, name),
                'ALTER DATABASE "%s" ALLOW_CONNECTIONS false' % before,
                "COMMENT ON DATABASE \"%s\" IS '%s'" % (before, comment),
                'COMMENT ON DATABASE "%s" IS %s' % (name, _quoted(known[name].get("comment"))),
            ]
        ours = ", ".join("'%s', '%s'" % (name, new_of(self.key, name)) for name in todo)
        for left in range(TRIES, 0, -1):
            self._server.ask("template1", END_SESSIONS % ours)
            try:
                # One message: one transaction.
                self._server.ask("template1", "; ".join(words))
                return todo
            except trials.TrialError:
                if left == 1:
                    raise
                self.sleep(PAUSE_SECONDS)
        raise AssertionError("no try")

    def remove_others(self):
        """Drop what earlier restores kept, and what was left of them; return the names."""
        known, own = self.known(), "%s%s: " % (WORD, self.key)
        comments = {name: known[name].get("comment") or "" for name in self.ours(known)}
        gone = [name for name, comment in comments.items() if not comment.startswith(own)]
        for name in gone:
            self.drop(name)
        return gone


def _quoted(comment):
    return "NULL" if comment is None else "'%s'" % comment.replace("'", "''")
