"""The forms of secrets in one line of text: patterns, each with what stands in a secret's place.

A pattern takes too much rather than too little: a log without a harmless word still helps. What
must not be here: secrets that span lines (:mod:`appliance.model.support.redaction`).
"""

from __future__ import annotations

from typing import Final

from appliance.model.support.forms import (
    BEFORE,
    BOUNDED,
    HINTS,
    PROPERTIES,
    QUOTED,
    SECRET_NAME,
    VALUE,
    rule,
)
from appliance.model.support.prose import PROSE

RULES: Final = (
    *PROSE,
    rule(
        "key",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----.{0,13000}?"
        r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----",
        "-----end",
    ),
    # A manifest of a Secret: the names in it say nothing.
    rule(
        "Secret",
        r"^(?=.*\b(?:string)?data\b).*\bkind[\"'\\]*\s*:\s*[\"'\\]*Secret(?![A-Za-z]).*$",
        "secret",
    ),
    rule(
        "Secret",
        r"\bstringData[\"'\\]*\s*:\s*(?P<secret>\{[^{}]*\}?)",
        "stringdata",
    ),
    rule("URL login", r"(?<=://)(?P<secret>[^\s/:@\"'<>]{0,200}:[^\s\"'<>]{1,400})@", "://"),
    rule("URL login", r"(?<=://)(?P<secret>[A-Za-z0-9_-]{20,400})@", "://"),
    rule("URL login", r"(?<![^\s\"'=])\w{1,64}:(?P<secret>[^\s\"']{1,200})@(?:tcp|unix)\(", "@"),
    rule(
        "URL query",
        r"[?&](?:amp;)?(?:key|code|state|session\w{0,20}|ticket|x-amz-(?:signature|credential))="
        r"(?P<secret>[^&\s\"'<>]+)",
        "=",
    ),
    rule(
        "URL path",
        r"(?:hooks\.slack\.com/services/|webhook\.office\.com/webhookb2/)(?P<secret>[^\s\"'<>]+)",
        *("slack", "webhook"),
    ),
    rule("JWT", r"\beyJ[\w-]{6,}\.[\w-]{4,}(?:\.[\w-]*)*", "eyj", flags=0),
    rule("JWT", r"(?<![\w-])eyJ[\w-]{12,}(?:(?:\.|%2E)[\w-]*)*", "eyj", flags=0),
    rule(
        "header",
        r"\bauthorization[\"'\\]*\s*[:=]\s*[\"'\\\[]*(?P<secret>(?:digest|aws4)[^\r\n]*)",
        "authorization",
    ),
    rule("NTLM", r"\bTlRMTVNTUAA[A-Za-z0-9+/=]*", "tlrmt", flags=0),
    rule("hash", r"(?<![0-9a-f])[0-9a-f]{32}:[0-9a-f]{32}(?![0-9a-f])", ":"),
    rule("hash", r"\bSCRAM-SHA-\d+\$[^\s\"',]+", "scram"),
    rule("hash", r"(?<![\w*])\*[0-9A-F]{40}(?!\w)", "*", flags=0),
    rule("hash", rf"pass(?:word|wd)?[_-]?hash[\"'\\]*\s*[:=]\s*(?P<secret>{VALUE})", "hash"),
    rule("signature", r"\bsignature=(?P<secret>[\w%+/=-]{16,})", "signature"),
    rule("certificate key", r"certificate key:?\s+(?P<secret>[0-9a-f]{64})(?!\w)", "certificate"),
    rule(
        "header",
        r"\b(?:proxy-)?authorization[\"'\\]*\s*[:=]\s*[\"'\\\[]*"
        r"(?P<secret>[^\s\"'\\\]]+(?: +[^\s\"'\\\],;]+)?)",
        "authorization",
    ),
    rule("header", r"\b(?:set-)?cookie[\"'\\]*\s*:\s*(?P<secret>[^\r\n]+)", "cookie"),
    rule(
        "header",
        r"\b(?:bearer|negotiate)\s+(?P<secret>[\w.~+/=-]{8,})",
        "bearer",
        "negotiate",
    ),
    rule(
        "header",
        r"\b[Bb]asic\s+(?P<secret>(?=[A-Za-z0-9+/]*[0-9A-Z])[A-Za-z0-9+/]{8,}={0,2})(?!\w)",
        "basic",
        flags=0,
    ),
    rule(
        "hash",
        r"\{(?:S?SHA|SMD5|MD5|CRYPT|PBKDF2)[0-9-]*\}(?P<secret>[A-Za-z0-9+/=.$]{8,})",
        *("sha", "md5}", "crypt}", "pbkdf2"),
    ),
    rule("hash", r"\$(?:apr1|2[abxy]?|1|5|6|y|7|argon2id?|scrypt)\$[^\s:\"',;\\]+", "$", flags=0),
    rule(
        "cloud key",
        r"\b(?:AKIA|ASIA|AGPA|AROA|AIDA)[A-Z0-9]{16}\b",
        *("akia", "asia", "agpa", "aroa", "aida"),
        flags=0,
    ),
    rule("cloud key", r"\bAIza[\w-]{30,}", "aiza", flags=0),
    rule(
        "cloud key",
        r"\b(?:gh[oprsu]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|hf_[A-Za-z0-9]{20,}"
        r"|xox[abeprs]-[\w-]{10,}|nvapi-[\w-]{16,}|sk-[\w-]{20,}|[rs]k_(?:live|test)_\w{16,}"
        r"|pypi-[\w-]{16,}|npm_\w{30,}|dckr_[po]at_[\w-]{10,}|hv[bs]\.[\w-]{10,}|GOOG1\w{20,})",
        *("gh", "glpat", "hf_", "xox", "nvapi", "sk-", "k_live", "k_test", "pypi", "npm_"),
        *("dckr", "hvs.", "hvb.", "goog1"),
        flags=0,
    ),
    rule("age key", r"\bAGE-SECRET-KEY-1[A-Z0-9]+", "age-secret"),
    rule("join token", r"\b(?<!\.)[a-z0-9]{6}\.[a-z0-9]{16}(?!\w|\.\w)", flags=0),
    rule(
        "login",
        r"(?<![^\s\"'])(?:-[A-Za-z]{0,8}u|--user)(?:[\"', ]+|=)[\"']?"
        r"(?P<secret>[^\s:\"',]{1,200}:[^\s\"']+)",
        *("-u", "u "),
    ),
    rule(
        "login",
        r"(?<![^\s\"'])-[pPa](?:[\"',\s]+)(?P<secret>(?![\s\"',-])[^\s\"']+)",
        *("login", "sshpass", "ipmitool", "redis-cli", "mysql", "mariadb"),
    ),
    rule(
        "login",
        r"\b(?:sshpass|mysql\w*|mariadb)\b[^\n]{0,300}?(?<![^\s\"'])-p(?P<secret>[^\s\"']+)",
        *("sshpass", "mysql", "mariadb"),
    ),
    rule(
        "login",
        r"^\s*(?:root|bind|olcRoot|db|admin)pw:*\s+(?:--\w+\s+)*(?P<secret>[^\s-]\S*)",
        "pw",
    ),
    rule("login", r"\bhtpasswd[\"',\s]+-\w*b\w*[\"',\s]+(?P<secret>[^\n]+)", "htpasswd"),
    rule("login", r"(?P<secret>[^\s:\"']{1,64}:[^\s|]{1,200})\s*\|\s*chpasswd", "chpasswd"),
    # A proxy without a scheme.
    rule(
        "login",
        r"(?<![\w./@:-])(?P<secret>[\w.-]{1,64}:[^\s@/\"':]{1,200})@(?!sha)[\w.-]{1,200}:\d{2,5}\b",
        "@",
    ),
    rule("login", r"\betcdctl_user[\"'\\]*\s*[:=]\s*[\"'\\]*(?P<secret>[^\s\"']+)", "etcdctl_user"),
    rule("login", r"(?<![^\s\"'])-u(?P<secret>[^\s\"',:=-][^\s:\"',]{0,200}:[^\s\"']+)", "curl"),
    # A .netrc, in one line or in several.
    rule("login", r"\blogin\s+\S{1,200}\s+password\s+(?P<secret>\S+)", "login"),
    rule("login", r"^\s*password\s+(?P<secret>\S+)\s*$", "password"),
    rule("login", r"\bwandb\b.{0,200}?\b(?P<secret>[0-9a-f]{40})\b", "wandb"),
    rule(
        "SQL",
        rf"\b(?:password|identified(?:\s+with\s+\S+)?\s+by)\s+(?:password\s+)?(?P<secret>{QUOTED})",
        *("password", "identified"),
    ),
    rule(
        "value",
        r"\bpass(?:word|wd|phrase)(?:\s+is:?|\s+for(?:\s+\S{1,64}){1,2}?\s*:)\s+(?P<secret>\S+)",
        "pass",
    ),
    rule("value", r"\b(?:r[ow]community\s|community\s?[:=])\s*(?P<secret>[^\s\"']+)", "community"),
    rule("value", rf"<(?:{SECRET_NAME})(?:\s[^<>]{{0,200}})?>(?P<secret>[^<\n]+)<", *HINTS),
    # A block of YAML in a string of JSON.
    rule(
        "value",
        rf"(?:{SECRET_NAME})[\"'\\]*\s*:[ \t]*{PROPERTIES}[|>][-+0-9]*"
        r"(?P<secret>(?:\\{1,4}n[ \t]+[^\\\n\"]+)+)",
        *HINTS,
    ),
    # Words of a list: ["helm", "--password", "..."], ('password', '...').
    rule(
        "value",
        rf"[\"'](?:{SECRET_NAME})[\"']\s*,\s*(?P<secret>b?(?:{QUOTED}))(?!\s*:)",
        *HINTS,
    ),
    rule(
        "value",
        rf"\b(?:name|key|type)[\"'\\]*\s*[:=]\s*[\"'\\]*{BEFORE}(?:{SECRET_NAME})[\"'\\]*[\s,][^{{}}\n]{{0,200}}?"
        rf"\bvalue[\"'\\]*\s*[:=]\s*(?P<secret>{VALUE})",
        *HINTS,
    ),
    rule(
        "value",
        rf"\bvalue[\"'\\]*\s*[:=]\s*(?P<secret>{BOUNDED})[\s,]+[\"'\\]*name[\"'\\]*\s*[:=]\s*"
        rf"[\"'\\]*(?:{SECRET_NAME})",
        *HINTS,
    ),
    rule(
        "value",
        r"^\s*(?:export\s+|- +)?(?=[A-Z])"
        rf"(?:{SECRET_NAME})=(?P<secret>(?![\"'\[])\S[^\r\n]*)$",
        *HINTS,
    ),
    rule(
        "value",
        rf"^\s*(?:- +)?[\"']?(?:{SECRET_NAME})[\"']?: +"
        r"(?P<secret>(?![\"'|>{\[\\])\S[^\r\n]*)$",
        *HINTS,
    ),
    rule(
        "value",
        # The kubelet names the volume before what it says of it.
        r"(?<!volume \")(?<!volume \\\")"
        rf"(?:{SECRET_NAME})[\"'\\]*\s*(?:=>|:=|%3D|[:=])[ \t]*{PROPERTIES}(?P<secret>{VALUE})",
        *HINTS,
    ),
    # A mapping of YAML in one line; one of JSON is looked into.
    rule(
        "value",
        rf"(?:{SECRET_NAME})[\"']?\s*:[ \t]+{PROPERTIES}"
        r"(?P<secret>\{\s*[\w.-]+\s*:[ \t][^{}\n]*\}?)",
        *HINTS,
    ),
    rule("value", rf"(?<=&)(?:{SECRET_NAME})[ \t]+(?P<secret>{VALUE})", *HINTS),
    rule(
        "value",
        rf"(?<![^\s\[])(?=-)(?:{SECRET_NAME})(?:[ \t]+|,[ \t]*)(?P<secret>(?!-){VALUE})",
        *HINTS,
    ),
    # The body of a key without its beginning. Paths and digests have no capitals.
    rule(
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
