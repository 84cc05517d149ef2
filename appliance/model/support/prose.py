"""The forms of secrets in sentences, tables and code: ``the client secret is X``, ``token  X``.

A word that follows the name of a secret is mostly no secret: ``token expired``. So without a sign
between them only what looks like a secret counts. What must not be here: assignments
(:mod:`appliance.model.support.rules`).
"""

from __future__ import annotations

from typing import Final

from appliance.model.support.forms import HINTS, SECRET_NAME, VALUE, named, rule

# Words that speak of a secret in a sentence; ``auth`` and ``key`` alone speak of other things.
_NAME: Final = named(
    r"(?:pass[ _-]?(?:word|wd|phrase|code)|passwort|kennwort|pswd|(?<![a-z])pwd|token"
    r"|secret(?:[ _-]key)?"
    r"|credential|(?:api|access|private|encryption|signing|client|license|master|session)[ _-]?key)"
)
_QUOTE: Final = r"[\"'`\\]{0,4}"
_WHOSE: Final = r"(?:\s+(?:for|of|from|named|called)(?:\s+user)?\s+[^\s:=]{1,64})?"
_IS: Final = (
    r"(?:(?:(?:is|was|been)\s+)?(?:now\s+)?(?:set|changed|reset|rotated|updated)\s+to"
    r"|is|was|are|were|equals|ist|lautet|has\s+(?:the\s+)?value)"
)
# What sentences of logs say of a secret: words that are none.
_SAID: Final = (
    r"(?!(?:not|no|now|in|on|at|by|for|from|to|of|a|an|the|too|only|still|already|being|valid"
    r"|invalid|expired|required|missing|empty|wrong|incorrect|correct|unset|set|absent|needed|used"
    r"|unused|unknown|stored|kept|rotated|created|deleted|updated|mounted|accepted|rejected|denied"
    r"|unauthorized|forbidden|optional|mandatory|available|unavailable|ready|malformed|present"
    r"|defined|undefined|disabled|enabled|older|newer|about|default|immutable|nil)\b)"
)
_LETTER: Final = r"[^\s\"'`,;()<>\[\]|]"
_HAS_DIGIT: Final = rf"(?={_LETTER}{{0,200}}[0-9])"
# Names of objects and machines have no capitals; paths and addresses are no secrets.
_MIXED: Final = (
    rf"(?-i:(?!/|https?:){_HAS_DIGIT}(?={_LETTER}{{0,200}}[a-z])(?={_LETTER}{{0,200}}[A-Z]))"
    rf"{_LETTER}{{8,200}}"
)
_HEX: Final = r"(?:[0-9a-f]{20,200}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22})(?!\w)"
_WITH_DIGIT: Final = rf"(?!/|https?:){_HAS_DIGIT}(?={_LETTER}{{0,200}}[a-z]){_LETTER}{{8,200}}"
# A name of several words in one: admin_password, clientSecret, X-Auth-Token.
_COMPOUND: Final = r"(?<![\w.-])(?=[\w.]{0,60}?(?:[_-]|(?-i:[a-z][A-Z])))"
_SPOKEN: Final = ("pass", "kennwort", "pswd", "pwd", "secret", "token", "credential", "key")
# Keys under the name of a secret that hold the secret itself.
TELLING: Final = "value|plain(?:text)?|raw|literal|content|text|data|string"

PROSE: Final = (
    rule(
        "value",
        rf"{_NAME}{_QUOTE}{_WHOSE}\s+{_IS}:?\s+{_QUOTE}{_SAID}(?P<secret>{VALUE})",
        *_SPOKEN,
    ),
    rule(
        "value",
        rf"{_NAME}{_QUOTE}{_WHOSE}(?:\s{{1,40}}|\s{{0,40}}(?:[|>\u2013\u2014-]|[:=]){{1,3}}\s{{0,40}})"
        rf"{_QUOTE}[(\[]?(?P<secret>{_MIXED}|{_HEX})",
        *_SPOKEN,
    ),
    rule(
        "value",
        rf"{_COMPOUND}{_NAME}{_QUOTE}(?:\s{{1,40}}|\s{{0,40}}[|>\u2013\u2014-]{{1,3}}\s{{0,40}})"
        rf"{_QUOTE}(?P<secret>{_WITH_DIGIT})",
        *_SPOKEN,
    ),
    # Digits alone: a pin may be of a plug or of a chip as well.
    rule(
        "value",
        rf"(?<![a-z])(?:pin|puk)(?:[ _-]?(?:code|number))?{_WHOSE}(?:\s+{_IS})?[\s:=]{{1,5}}"
        rf"{_QUOTE}(?P<secret>[0-9]{{4,16}})(?!\w)",
        *("pin", "puk"),
    ),
    # A table with lines between its columns.
    rule("value", rf"(?:^|\|)\s*{SECRET_NAME}\s*\|\s*(?P<secret>[^|\s][^|\n]{{0,200}})", *HINTS),
    # Signs of programs: make, Ruby, LDIF, shells.
    rule(
        "value",
        rf"{SECRET_NAME}[\"'\\]*\s*(?:->|[?+]=|={{2,3}}|::)\s*(?P<secret>{VALUE})",
        *HINTS,
    ),
    rule("value", rf"<<<\s*(?P<secret>{VALUE})", *HINTS),
    # An element of a list or of a mapping.
    rule(
        "value",
        rf"{SECRET_NAME}[\"'\\]*(?:\]|\[\w{{1,20}}\])\s*[:=]{{1,2}}\s*(?P<secret>{VALUE})",
        *HINTS,
    ),
    rule("value", rf"{SECRET_NAME}:[\w.-]{{1,64}}:\s+(?P<secret>{VALUE})", *HINTS),
    rule(
        "value",
        rf"{SECRET_NAME}[\"'\\]*\s*:\s*\{{[^{{}}\n]{{0,400}}?\b(?:{TELLING})[\"'\\]*\s*:\s*"
        rf"(?P<secret>{VALUE})",
        *HINTS,
    ),
    rule("login", r"\bldap\w{2,10}\b[^\n]{0,400}?\s-w\s*[\"']?(?P<secret>[^\s\"']+)", "ldap"),
    rule(
        "login", r"\bsnmp\w{2,12}\b[^\n]{0,400}?\s-A\s*[\"']?(?P<secret>[^\s\"']+)", "snmp", flags=0
    ),
    rule(
        "login", r"\bsnmp\w{2,12}\b[^\n]{0,400}?\s-X\s*[\"']?(?P<secret>[^\s\"']+)", "snmp", flags=0
    ),
    rule("key", r"^\s*Private-MAC:\s*(?P<secret>\S+)", "private-mac"),
)
