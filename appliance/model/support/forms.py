"""Names of secrets, what stands after one, and what stands in its place: parts of patterns.

What must not be here: the forms themselves (:mod:`appliance.model.support.rules`, and those of
sentences in :mod:`appliance.model.support.prose`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

# Part of a name that says that a secret follows, with "-" or "_" between its words.
_WORDS: Final = (
    r"(?:pass(?:[ _-]?phrase|word|wd|code)|(?<![a-z])pass(?![a-z])|secret|token|credential|cookie"
    r"|htpasswd|(?<![a-z])auths?(?![a-z])|(?-i:(?<=[a-z])Auth(?![a-z]))|connection[_-]?string"
    r"|(?:api|access|private|encryption|signing|account|shared|client|ca|tls|ssh|age|auth|license"
    r"|master|jwt|hmac|fernet|aes|session)"
    r"[ _-]?key|(?<![a-z])(?:pwd(?!=/)|psk|creds?|passwort|kennwort|csrf)(?![a-z])"
    r""
    r"|assertion|samlresponse|string[_-]?data"
    r"|(?<![a-z])pw(?![a-z])|(?-i:(?<=[a-z])P[wW](?![a-z]))|(?:db|admin|root|user|bind|login)pw(?![a-z])"
    r"|pas?sw(?:r?d|or)|pswd|(?<![a-z])(?:psw|otp|totp|contrase[nñ]a)(?![a-z])"
    r"|(?:store|key|trust)pass(?![a-z])"
    r"|(?<![a-z])(?:pin|puk)(?:[ _-]?(?:code|number))?(?![a-z])|(?-i:(?<=[a-z])P(?:in|IN)(?![a-z]))"
    r"|key[_-]?data|certificate[_-]?key|docker(?:config(?:json)?|cfg)|(?<![a-z])sig(?![a-z]))"
)
HINTS: Final = (
    *("pass", "secret", "token", "credential", "cookie", "auth", "connection", "key"),
    *(
        "docker",
        "sig",
        "pwd",
        "psk",
        "cred",
        "kennwort",
        "csrf",
        "assertion",
        "samlresponse",
        "string",
    ),
    *("pw", "psw", "pasw", "otp", "contrase", "pin", "puk"),
)
# How names end that say where a secret is, or how many there are.
_HARMLESS: Final = (
    *("name", "names", "file", "path", "dir", "url", "uri", "seconds", "enabled", "ref", "refs"),
    *("type", "kind", "namespace", "count", "hash", "expires", "expiration", "ttl", "endpoint"),
    *("issuer", "mode", "size", "version", "review", "reviews", "object", "objects"),
)
_ENDS: Final = "".join(f"(?<!{word})" for word in _HARMLESS)
# Words before the name, where quotes or the beginning of a line tell where it begins.
BEFORE: Final = r"(?:[\w.-]{1,40} ){0,3}"


def named(words: str) -> str:
    """A pattern of whole names with one of some words in it."""
    return rf"(?<![\w.-])[\w.-]{{0,60}}?{words}[\w.-]{{0,40}}{_ENDS}(?![\w.-])"


SECRET_NAME: Final = named(_WORDS)
QUOTED: Final = r""""(?:[^"\\]|\\.)*"|'(?:[^']|'')*'"""
_PLAIN: Final = r"[^\s,;&\"'{}\[\]\\]"
# What stands after a name: in quotes of any depth of JSON in JSON; a list; a word, in which one or
# two marks may stand; where a line was cut, a quote that never ends.
VALUE: Final = (
    rf"(?:\"{{3}}[^\n]+|'{{3}}[^\n]+|(?P<deep>\\+\").{{0,4000}}?(?<!\\)(?P=deep)|b?(?:{QUOTED})"
    rf"|\[(?:{QUOTED}|[^\]\"'\n])*\]"
    rf"|{_PLAIN}+(?:[,;&\"'{{}}\[\]\\]{{1,2}}{_PLAIN}+)*"
    r"|\\*[\"'][^\n]*|\[[^\]\n]*$)"
)
# The same where something must follow it: each of many values in one line is read to its end.
BOUNDED: Final = (
    rf"(?:(?P<deep>\\+\").{{0,1000}}?(?<!\\)(?P=deep)"
    r"|b?(?:\"(?:[^\"\\]|\\.){0,1000}\"|'(?:[^']|''){0,1000}')|\[[^\]\n]{0,1000}\]"
    rf"|{_PLAIN}{{1,200}}(?:[,;&\"'{{}}\[\]\\]{{1,2}}{_PLAIN}{{1,200}}){{0,9}})"
)
# An anchor and a tag of YAML, before a value.
PROPERTIES: Final = r"(?:[&!][^\s,{}\[\]]*[ \t]+){0,3}"
_KEPT: Final = re.compile(r"(?:null|none|true|false|)|\[redacted: [^\]]*\]?", re.I)
_QUOTES: Final = re.compile(r"\\*[\"']")
_IS_SECRET_NAME: Final = re.compile(BEFORE + SECRET_NAME, re.I)


@dataclass(frozen=True)
class Rule:
    """One form of a secret.

    Attributes:
        name: what it is; stands in the place of the secret.
        pattern: its group ``secret`` is taken out; without that group the whole match.
        hints: a line in lower case has one of them, or no such secret; empty: any line may.
    """

    name: str
    pattern: re.Pattern[str]
    hints: tuple[str, ...] = ()

    def apply(self, line: str) -> str:
        """The line with a mark in place of each secret of this form."""
        return self.pattern.sub(self._replaced, line)

    def _replaced(self, found: re.Match[str]) -> str:
        if "secret" not in self.pattern.groupindex:
            return marked(self.name)
        if _KEPT.fullmatch(found["secret"].strip("\"'\\")):
            return found[0]
        begin, (start, end) = found.start(), found.span("secret")
        mark = _quoted(found["secret"], marked(self.name))
        return found[0][: start - begin] + mark + found[0][end - begin :]


def is_secret_name(name: str) -> bool:
    """Whether the value of a key, a variable or an option of this name is a secret."""
    return _IS_SECRET_NAME.fullmatch(name) is not None


def marked(name: str) -> str:
    """What stands in the place of a secret."""
    return f"[redacted: {name}]"


def _quoted(secret: str, mark: str) -> str:
    """The mark in the quotes of the secret, so that JSON stays JSON."""
    if found := _QUOTES.match(secret):
        return f"{found[0]}{mark}{found[0]}"
    return f'["{mark}"]' if secret.startswith("[") else mark


def rule(name: str, pattern: str, *hints: str, flags: int = re.I) -> Rule:
    """A form of a secret; see :class:`Rule`."""
    return Rule(name, re.compile(pattern, flags), hints)


def has_hint(lower: str) -> bool:
    """Whether a line in lower case may have a name of a secret in it."""
    return any(hint in lower for hint in HINTS)
