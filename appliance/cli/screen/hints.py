"""Hints whose commands work as printed: with the site that was typed, and with programs found.

What must not be here: the words of a hint, which belong to the error.
"""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path

# A command of a site, up to the end of its clause, or to the words of another program.
_OF_A_SITE = re.compile(
    r"\bappliance (plan|install|status|health|history|kubeconfig|node|runai (csr|access|cli)"
    r"|site (check|show|adopt))\b( (?!-- )[^\s;,()]+)*"
)
_APPLIANCE = re.compile(r"(?<![\w/.-])appliance(?= [a-z])")
_VAULT = re.compile(r"(?<![\w/.-])ansible-vault(?= [a-z])")


def runnable(text: str, site: str | None = None) -> str:
    """The text with commands that run as printed.

    Args:
        text: of a hint, or of a detail with one.
        site: the value typed as ``--site``; None if none was typed.
    """
    if site and site not in text:
        text = _OF_A_SITE.sub(lambda found: f"{found[0]} --site {shlex.quote(site)}", text)
    typed = Path(sys.argv[0])
    if typed.name == "appliance" and shutil.which("appliance") is None:
        text = _APPLIANCE.sub(lambda _: shlex.quote(str(typed)), text)
    beside = Path(sys.executable).parent / "ansible-vault"
    if shutil.which("ansible-vault") is None and beside.exists():
        text = _VAULT.sub(lambda _: shlex.quote(str(beside)), text)
    return text
