"""Ask an image registry over its API (OCI distribution), with a login where it wants one.

A registry answers 401 and names a scheme: *Basic* wants the login itself, *Bearer* a token from the
address that it names. The password goes only to the registry, and to an https address that the
registry named, as Docker does (distribution: docs/spec/auth/token.md). Everything that a registry
answers is limited in size and time.

Python 3.8, standard library. What must not be here: which images there should be.
"""

from __future__ import annotations

import http.client
import json
import re
import ssl
import threading
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from ansible.module_utils.appliance_http import AnswerTooLargeError, Line, exchange

# For one question and its whole answer.
SECONDS = 120
# A manifest may have 4 MiB (distribution's own limit); a token some kilobytes.
LARGEST_ANSWER, LARGEST_TOKEN = 4 << 20, 1 << 16
LONGEST_CHALLENGE = 4096
# Of a blob, at a time; how often its connection may break, without one more byte and in all.
CHUNK, MOST_BROKEN, MOST_RESUMED = 1 << 18, 3, 200
UNAUTHORIZED = 401
READING = ("GET", "HEAD")
REDIRECTS = (301, 302, 303, 307, 308)
_SCHEME = re.compile(r"\s*([A-Za-z]+)\s*(.*)", re.DOTALL)
_FIELD = re.compile(r'([a-z_]+)="([^"\\\r\n]*)"')
_TOKEN = re.compile(r"[\x21-\x7e]+")


class RegistryError(Exception):
    """The registry lacks something, refuses, or does not answer."""


class Answer:
    """One answer.

    Attributes:
        status: its code.
        headers: its headers.
        body: its content; empty for HEAD.
    """

    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def is_elsewhere(self):
        """Whether a blob is there, in a store of objects that the registry names."""
        return self.status in REDIRECTS and bool(self.headers.get("Location"))


def login_in(folder, registry):
    """Return the base64 of ``user:password`` in Docker's configuration; None without a login."""
    if not folder:
        return None
    path = Path(folder) / "config.json"
    try:
        held = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    entry = held.get("auths", {}).get(registry) or {}
    return entry.get("auth") or None


class Client:
    """A registry at NAME:PORT, over TLS by its CA; each thread has a connection of its own."""

    def __init__(self, address, ca_path, login=None):
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._context = ssl.create_default_context(cafile=ca_path)
        self._login = login
        self._here = threading.local()
        self._tokens = {}

    def ask(self, method, path, accept=None):
        """Return the answer; after a 401 once more with what the registry asked for.

        Raises:
            RegistryError: it does not answer, or asks for a login that is not known or not taken.
        """
        try:
            return self._ask(method, path, accept)
        except RegistryError:
            self.close()
            raise
        except AnswerTooLargeError as error:
            self.close()
            raise RegistryError("the registry gives %s" % error) from error
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise RegistryError("the registry does not answer: %s" % error) from error

    def _ask(self, method, path, accept):
        # What changes something has the login from the start; reading asks for one only if it must.
        known = "Basic " + self._login if self._login and method not in READING else None
        answer = self._send(method, path, accept, known)
        if answer.status == UNAUTHORIZED:
            known = self._authorization(answer, path)
            answer = self._send(method, path, accept, known)
        if answer.status == UNAUTHORIZED:
            raise RegistryError(
                "the registry refuses the login" if self._login else "the registry wants a login"
            )
        return answer

    def blob(self, repository, digest, size):
        """Yield the content of a blob; a connection that breaks is resumed where it was.

        Whoever reads may pause for longer than a server waits.

        Raises:
            RegistryError: the registry has no such blob of this size, or does not give it.
        """
        path, got, broken, resumed = "/v2/%s/blobs/%s" % (repository, digest), 0, 0, 0
        while got < size:
            try:
                for piece in self._from(path, got, size):
                    got, broken = got + len(piece), 0
                    yield piece
                why = "it ended early"
            except (OSError, http.client.HTTPException) as error:
                why = error
            finally:
                self.close()
            broken, resumed = broken + 1, resumed + 1
            if got < size and (broken > MOST_BROKEN or resumed > MOST_RESUMED):
                raise RegistryError("the registry does not give %s: %s" % (digest, why))

    def _from(self, path, start, size):
        """Yield the content of a blob from a byte on."""
        # It brings the token along where the registry wants one.
        answer = self.ask("HEAD", path)
        if answer.status != 200 or int(answer.headers.get("Content-Length") or -1) != size:
            raise RegistryError("the registry answers %s with %d" % (path, answer.status))
        line, known = self._here.line, self._tokens.get(_repository(path))
        headers = {"Authorization": known} if known else {}
        if start:
            headers["Range"] = "bytes=%d-" % start
        line.request("GET", path, None, headers)
        answer = line.getresponse()
        if answer.status != (206 if start else 200):
            raise RegistryError("the registry answers %s with %d" % (path, answer.status))
        left = size - start
        while left:
            piece = answer.read(min(left, CHUNK))
            if not piece:
                return
            left -= len(piece)
            yield piece

    def close(self):
        """Close this thread's connection."""
        line = getattr(self._here, "line", None)
        if line is not None:
            line.close()
        self._here.line = None

    def _send(self, method, path, accept, authorization=None):
        line = getattr(self._here, "line", None)
        if line is None:
            line = self._here.line = Line(self._host, self._port, self._context)
        known = authorization or self._tokens.get(_repository(path))
        headers = {"Accept": accept} if accept else {}
        if known:
            headers["Authorization"] = known
        return _answer(line, method, path, headers, LARGEST_ANSWER)

    def _authorization(self, answer, path):
        """Return the header that the registry asks for."""
        challenge = (answer.headers.get("WWW-Authenticate") or "")[:LONGEST_CHALLENGE]
        scheme, fields = challenge_of(challenge)
        if scheme == "basic" and self._login:
            found = "Basic " + self._login
        elif scheme == "bearer":
            found = "Bearer " + self._token(fields, path)
        else:
            raise RegistryError("the registry wants a login")
        self._tokens[_repository(path)] = found
        return found

    def _token(self, fields, path):
        try:
            realm = urlsplit(fields.get("realm", ""))
            port = realm.port or 443
        except ValueError:
            raise RegistryError("the registry names no readable address for a token") from None
        if realm.scheme != "https" or not realm.hostname or realm.username is not None:
            raise RegistryError("the registry names no https address for a token")
        scope = fields.get("scope") or "repository:%s:pull" % _repository(path)
        words = {"scope": scope}
        if fields.get("service"):
            words["service"] = fields["service"]
        query = "&".join(part for part in (realm.query, urlencode(words)) if part)
        line = Line(realm.hostname, port, self._context)
        headers = {"Authorization": "Basic " + self._login} if self._login else {}
        try:
            where = "%s?%s" % (realm.path or "/", query)
            answer = _answer(line, "GET", where, headers, LARGEST_TOKEN)
        finally:
            line.close()
        if answer.status != 200:
            raise RegistryError(
                "%s gives no token: it answers %d" % (realm.hostname, answer.status)
            )
        return token_in(answer.body)


def challenge_of(text):
    """Return the scheme in lower case and the fields of a WWW-Authenticate header."""
    found = _SCHEME.match(text)
    if not found:
        return "", {}
    return found.group(1).lower(), dict(_FIELD.findall(found.group(2)))


def token_in(body):
    """Return the token in an answer.

    Raises:
        RegistryError: there is none.
    """
    try:
        held = json.loads(body)
    except (ValueError, RecursionError):
        held = None
    token = (held.get("token") or held.get("access_token")) if isinstance(held, dict) else None
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise RegistryError("the registry's answer to a login has no token")
    return token


def _repository(path):
    """Return the repository in an API path: ``/v2/<repository>/manifests/<reference>``."""
    found = re.match(r"/v2/(.+)/(?:manifests|blobs|tags)/", path)
    return found.group(1) if found else ""


def _answer(line, method, path, headers, limit):
    return Answer(*exchange(line, (method, path, None, headers), limit, SECONDS))
