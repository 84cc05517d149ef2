"""The forms of secrets in one line of text: patterns, each with what stands in a secret's place.

A pattern takes too much rather than too little: a log without a harmless word still helps. What
must not be here: secrets that span lines (:mod:`appliance.model.support.redaction`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

# Part of a name that says that a secret follows, with "-" or "_" between its words.
_WORDS: Final = (
    r"(?:pass(?:word|wd|phrase|code)|(?<![a-z])pass(?![a-z])|secret|token|credential|cookie"
    r"|htpasswd|(?<![a-z])auths?(?![a-z])|(?-i:(?<=[a-z])Auth(?![a-z]))|connection[_-]?string"
    r"|(?:api|access|private|encryption|signing|account|shared|client|ca|tls|ssh|age|auth|license"
    r"|master|jwt|hmac|fernet|aes|session)"
    r"[_-]?key|(?<![a-z])(?:pwd(?!=/)|psk|creds?|passwort|kennwort|csrf)(?![a-z])|assertion|samlresponse|string[_-]?data"
    r"|(?<![a-z])pw(?![a-z])|(?-i:(?<=[a-z])P[wW](?![a-z]))|(?:db|admin|root|user|bind|login)pw(?![a-z])"
    r"|pas?sw(?:r?d|or)|pswd|(?<![a-z])(?:psw|otp|totp|contrase[nñ]a)(?![a-z])"
    r"|(?:store|key|trust)pass(?![a-z])"
    r"|key[_-]?data|certificate[_-]?key|docker(?:config(?:json)?|cfg)|(?<![a-z])sig(?![a-z]))"
)
_HINTS: Final = (
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
    *("pw", "psw", "pasw", "otp", "contrase"),
)
# How names end that say where a secret is, or how many there are.
_HARMLESS: Final = (
    *("name", "names", "file", "path", "dir", "url", "uri", "seconds", "enabled", "ref", "refs"),
    *("type", "kind", "namespace", "count", "hash", "expires", "expiration", "ttl", "endpoint"),
    *("issuer", "mode", "size", "version", "review", "reviews", "object", "objects"),
)
_ENDS: Final = "".join(f"(?<!{word})" for word in _HARMLESS)
SECRET_NAME: Final = rf"(?<![\w.-])[\w.-]{{0,60}}?{_WORDS}[\w.-]{{0,40}}{_ENDS}(?![\w.-])"
_QUOTED: Final = r""""(?:[^"\\]|\\.)*"|'(?:[^']|'')*'"""
_PLAIN: Final = r"[^\s,;&\"'{}\[\]\\]"
# What stands after a name: in quotes of any depth of JSON in JSON; a list; a word, in which one or
# two marks may stand; where a line was cut, a quote that never ends.
_VALUE: Final = (
    rf"(?:(?P<deep>\\+\").{{0,4000}}?(?<!\\)(?P=deep)|b?(?:{_QUOTED})"
    rf"|\[(?:{_QUOTED}|[^\]\"'\n])*\]"
    rf"|{_PLAIN}+(?:[,;&\"'{{}}\[\]\\]{{1,2}}{_PLAIN}+)*"
    r"|\\*[\"'][^\n]*|\[[^\]\n]*$)"
)
# The same where something must follow it: each of many values in one line is read to its end.
_BOUNDED: Final = (
    rf"(?:(?P<deep>\\+\").{{0,1000}}?(?<!\\)(?P=deep)"
    r"|b?(?:\"(?:[^\"\\]|\\.){0,1000}\"|'(?:[^']|''){0,1000}')|\[[^\]\n]{0,1000}\]"
    rf"|{_PLAIN}{{1,200}}(?:[,;&\"'{{}}\[\]\\]{{1,2}}{_PLAIN}{{1,200}}){{0,9}})"
)
# An anchor and a tag of YAML, before a value.
_PROPERTIES: Final = r"(?:[&!][^\s,{}\[\]]*[ \t]+){0,3}"
_KEPT: Final = re.compile(r"(?:null|none|true|false|)|\[redacted: [^\]]*\]?", re.I)
_QUOTES: Final = re.compile(r"\\*[\"']")
_IS_SECRET_NAME: Final = re.compile(SECRET_NAME, re.I)


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


def _rule(name: str, pattern: str, *hints: str, flags: int = re.I) -> Rule:
    return Rule(name, re.compile(pattern, flags), hints)


RULES: Final = (
    _rule(
        "key",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----.{0,13000}?"
        r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----",
        "-----end",
    ),
    # A manifest of a Secret: the names in it say nothing.
    _rule(
        "Secret",
        r"^(?=.*\b(?:string)?data\b).*\bkind[\"'\\]*\s*:\s*[\"'\\]*Secret(?![A-Za-z]).*$",
        "secret",
    ),
    _rule(
        "Secret",
        r"\bstringData[\"'\\]*\s*:\s*(?P<secret>\{[^{}]*\}?)",
        "stringdata",
    ),
    _rule("URL login", r"(?<=://)(?P<secret>[^\s/:@\"'<>]{0,200}:[^\s\"'<>]{1,400})@", "://"),
    _rule("URL login", r"(?<=://)(?P<secret>[A-Za-z0-9_-]{20,400})@", "://"),
    _rule("URL login", r"(?<![^\s\"'=])\w{1,64}:(?P<secret>[^\s\"']{1,200})@(?:tcp|unix)\(", "@"),
    _rule(
        "URL query",
        r"[?&](?:amp;)?(?:key|code|state|session\w{0,20}|ticket|x-amz-(?:signature|credential))="
        r"(?P<secret>[^&\s\"'<>]+)",
        "=",
    ),
    _rule(
        "URL path",
        r"(?:hooks\.slack\.com/services/|webhook\.office\.com/webhookb2/)(?P<secret>[^\s\"'<>]+)",
        *("slack", "webhook"),
    ),
    _rule("JWT", r"\beyJ[\w-]{6,}\.[\w-]{4,}(?:\.[\w-]*)*", "eyj", flags=0),
    _rule("JWT", r"(?<![\w-])eyJ[\w-]{12,}(?:(?:\.|%2E)[\w-]*)*", "eyj", flags=0),
    _rule(
        "header",
        r"\bauthorization[\"'\\]*\s*[:=]\s*[\"'\\\[]*(?P<secret>(?:digest|aws4)[^\r\n]*)",
        "authorization",
    ),
    _rule("NTLM", r"\bTlRMTVNTUAA[A-Za-z0-9+/=]*", "tlrmt", flags=0),
    _rule("hash", r"(?<![0-9a-f])[0-9a-f]{32}:[0-9a-f]{32}(?![0-9a-f])", ":"),
    _rule("hash", r"\bSCRAM-SHA-\d+\$[^\s\"',]+", "scram"),
    _rule("hash", r"(?<![\w*])\*[0-9A-F]{40}(?!\w)", "*", flags=0),
    _rule("hash", rf"pass(?:word|wd)?[_-]?hash[\"'\\]*\s*[:=]\s*(?P<secret>{_VALUE})", "hash"),
    _rule("signature", r"\bsignature=(?P<secret>[\w%+/=-]{16,})", "signature"),
    _rule("certificate key", r"certificate key:?\s+(?P<secret>[0-9a-f]{64})(?!\w)", "certificate"),
    _rule(
        "header",
        r"\b(?:proxy-)?authorization[\"'\\]*\s*[:=]\s*[\"'\\\[]*"
        r"(?P<secret>[^\s\"'\\\]]+(?: +[^\s\"'\\\],;]+)?)",
        "authorization",
    ),
    _rule("header", r"\b(?:set-)?cookie[\"'\\]*\s*:\s*(?P<secret>[^\r\n]+)", "cookie"),
    _rule(
        "header",
        r"\b(?:bearer|negotiate)\s+(?P<secret>[\w.~+/=-]{8,})",
        "bearer",
        "negotiate",
    ),
    _rule(
        "header",
        r"\b[Bb]asic\s+(?P<secret>(?=[A-Za-z0-9+/]*[0-9A-Z])[A-Za-z0-9+/]{8,}={0,2})(?!\w)",
        "basic",
        flags=0,
    ),
    _rule(
        "hash",
        r"\{(?:S?SHA|SMD5|MD5|CRYPT|PBKDF2)[0-9-]*\}(?P<secret>[A-Za-z0-9+/=.$]{8,})",
        *("sha", "md5}", "crypt}", "pbkdf2"),
    ),
    _rule("hash", r"\$(?:apr1|2[abxy]?|1|5|6|y|7|argon2id?|scrypt)\$[^\s:\"',;\\]+", "$", flags=0),
    _rule(
        "cloud key",
        r"\b(?:AKIA|ASIA|AGPA|AROA|AIDA)[A-Z0-9]{16}\b",
        *("akia", "asia", "agpa", "aroa", "aida"),
        flags=0,
    ),
    _rule("cloud key", r"\bAIza[\w-]{30,}", "aiza", flags=0),
    _rule(
        "cloud key",
        r"\b(?:gh[oprsu]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|hf_[A-Za-z0-9]{20,}"
        r"|xox[abeprs]-[\w-]{10,}|nvapi-[\w-]{16,}|sk-[\w-]{20,}|[rs]k_(?:live|test)_\w{16,}"
        r"|pypi-[\w-]{16,}|npm_\w{30,}|dckr_[po]at_[\w-]{10,}|hv[bs]\.[\w-]{10,}|GOOG1\w{20,})",
        *("gh", "glpat", "hf_", "xox", "nvapi", "sk-", "k_live", "k_test", "pypi", "npm_"),
        *("dckr", "hvs.", "hvb.", "goog1"),
        flags=0,
    ),
    _rule("age key", r"\bAGE-SECRET-KEY-1[A-Z0-9]+", "age-secret"),
    _rule("join token", r"\b(?<!\.)[a-z0-9]{6}\.[a-z0-9]{16}(?!\w|\.\w)", flags=0),
    _rule(
        "login",
        r"(?<![^\s\"'])(?:-[A-Za-z]{0,8}u|--user)(?:[\"', ]+|=)[\"']?"
        r"(?P<secret>[^\s:\"',]{1,200}:[^\s\"']+)",
        *("-u", "u "),
    ),
    _rule(
        "login",
        r"(?<![^\s\"'])-[pPa](?:[\"',\s]+)(?P<secret>(?![\s\"',-])[^\s\"']+)",
        *("login", "sshpass", "ipmitool", "redis-cli", "mysql", "mariadb"),
    ),
    _rule(
        "login",
        r"\b(?:sshpass|mysql\w*|mariadb)\b[^\n]{0,300}?(?<![^\s\"'])-p(?P<secret>[^\s\"']+)",
        *("sshpass", "mysql", "mariadb"),
    ),
    _rule(
        "login",
        r"^\s*(?:root|bind|olcRoot|db|admin)pw:*\s+(?:--\w+\s+)*(?P<secret>[^\s-]\S*)",
        "pw",
    ),
    _rule("login", r"\bhtpasswd[\"',\s]+-\w*b\w*[\"',\s]+(?P<secret>[^\n]+)", "htpasswd"),
    _rule("login", r"(?P<secret>[^\s:\"']{1,64}:[^\s|]{1,200})\s*\|\s*chpasswd", "chpasswd"),
    # A proxy without a scheme.
    _rule(
        "login",
        r"(?<![\w./@:-])(?P<secret>[\w.-]{1,64}:[^\s@/\"':]{1,200})@(?!sha)[\w.-]{1,200}:\d{2,5}\b",
        "@",
    ),
    _rule(
        "login", r"\betcdctl_user[\"'\\]*\s*[:=]\s*[\"'\\]*(?P<secret>[^\s\"']+)", "etcdctl_user"
    ),
    _rule("login", r"(?<![^\s\"'])-u(?P<secret>[^\s\"',:=-][^\s:\"',]{0,200}:[^\s\"']+)", "curl"),
    # A .netrc, in one line or in several.
    _rule("login", r"\blogin\s+\S{1,200}\s+password\s+(?P<secret>\S+)", "login"),
    _rule("login", r"^\s*password\s+(?P<secret>\S+)\s*$", "password"),
    _rule("login", r"\bwandb\b.{0,200}?\b(?P<secret>[0-9a-f]{40})\b", "wandb"),
    _rule(
        "SQL",
        rf"\b(?:password|identified(?:\s+with\s+\S+)?\s+by)\s+(?:password\s+)?(?P<secret>{_QUOTED})",
        *("password", "identified"),
    ),
    _rule(
        "value",
        r"\bpass(?:word|wd|phrase)(?:\s+is:?|\s+for(?:\s+\S{1,64}){1,2}?\s*:)\s+(?P<secret>\S+)",
        "pass",
    ),
    _rule("value", r"\b(?:r[ow]community\s|community\s?[:=])\s*(?P<secret>[^\s\"']+)", "community"),
    _rule("value", rf"<(?:{SECRET_NAME})(?:\s[^<>]{{0,200}})?>(?P<secret>[^<\n]+)<", *_HINTS),
    # A block of YAML in a string of JSON.
    _rule(
        "value",
        rf"(?:{SECRET_NAME})[\"'\\]*\s*:[ \t]*{_PROPERTIES}[|>][-+0-9]*"
        r"(?P<secret>(?:\\{1,4}n[ \t]+[^\\\n\"]+)+)",
        *_HINTS,
    ),
    # Words of a list: ["helm", "--password", "..."], ('password', '...').
    _rule(
        "value",
        rf"[\"'](?:{SECRET_NAME})[\"']\s*,\s*(?P<secret>b?(?:{_QUOTED}))(?!\s*:)",
        *_HINTS,
    ),
    _rule(
        "value",
        rf"\b(?:name|key|type)[\"'\\]*\s*[:=]\s*[\"'\\]*(?:{SECRET_NAME})[\"'\\]*[\s,][^{{}}\n]{{0,200}}?"
        rf"\bvalue[\"'\\]*\s*[:=]\s*(?P<secret>{_VALUE})",
        *_HINTS,
    ),
    _rule(
        "value",
        rf"\bvalue[\"'\\]*\s*[:=]\s*(?P<secret>{_BOUNDED})[\s,]+[\"'\\]*name[\"'\\]*\s*[:=]\s*"
        rf"[\"'\\]*(?:{SECRET_NAME})",
        *_HINTS,
    ),
    _rule(
        "value",
        r"^\s*(?:export\s+|- +)?(?=[A-Z])"
        rf"(?:{SECRET_NAME})=(?P<secret>(?![\"'\[])\S[^\r\n]*)$",
        *_HINTS,
    ),
    _rule(
        "value",
        rf"^\s*(?:- +)?[\"']?(?:{SECRET_NAME})[\"']?: +"
        r"(?P<secret>(?![\"'|>{\[\\])\S[^\r\n]*)$",
        *_HINTS,
    ),
    _rule(
        "value",
        # The kubelet names the volume before what it says of it.
        r"(?<!volume \")(?<!volume \\\")"
        rf"(?:{SECRET_NAME})[\"'\\]*\s*(?:=>|:=|%3D|[:=])[ \t]*{_PROPERTIES}(?P<secret>{_VALUE})",
        *_HINTS,
    ),
    # A mapping of YAML in one line; one of JSON is looked into.
    _rule(
        "value",
        rf"(?:{SECRET_NAME})[\"']?\s*:[ \t]+{_PROPERTIES}"
        r"(?P<secret>\{\s*[\w.-]+\s*:[ \t][^{}\n]*\}?)",
        *_HINTS,
    ),
    _rule("value", rf"(?<=&)(?:{SECRET_NAME})[ \t]+(?P<secret>{_VALUE})", *_HINTS),
    _rule(
        "value",
        rf"(?<![^\s\[])(?=-)(?:{SECRET_NAME})(?:[ \t]+|,[ \t]*)(?P<secret>(?!-){_VALUE})",
        *_HINTS,
    ),
    # The body of a key without its beginning. Paths and digests have no capitals.
    _rule(
        "base64",
        r"(?<![A-Za-z0-9+/_-])(?=[A-Za-z0-9+/_-]{60})(?=[a-z0-9+/_-]*[A-Z][a-z0-9+/_-]*[A-Z][a-z0-9+/_-]*[A-Z])"
        r"(?=[A-Za-z+/_-]*[0-9])(?=[A-Z0-9+/_-]*[a-z])[A-Za-z0-9+/_-]{60,}={0,2}",
        flags=0,
    ),
)


# Hint -> the places in the table of the rules that need it.
_BY_HINT: Final = {
    hint: frozenset(place for place, rule in enumerate(RULES) if hint in rule.hints)
    for hint in {hint for rule in RULES for hint in rule.hints}
}
_ALWAYS: Final = frozenset(place for place, rule in enumerate(RULES) if not rule.hints)


def has_hint(lower: str) -> bool:
    """Whether a line in lower case may have a name of a secret in it."""
    return any(hint in lower for hint in _HINTS)


def without_secrets(line: str) -> str:
    """The line with a mark in place of each secret whose form is known."""
    lower = line.lower()
    places = set(_ALWAYS)
    for hint, of_hint in _BY_HINT.items():
        if hint in lower:
            places |= of_hint
    for place in sorted(places):
        line = RULES[place].apply(line)
    return line
