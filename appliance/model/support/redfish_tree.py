"""A recorded Redfish tree without what identifies a machine, its site or its people.

Passwords and keys go. Serial numbers, UUIDs, MACs, addresses and host names are replaced, each by
the same word wherever it stands: also inside paths, Ids and texts. Versions stay as they are, since
they look like addresses and are what a recording is for. A firmware's placeholder stays as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from appliance.model.state.facts.placeholders import told_serial, told_uuid
from appliance.model.support.forms import is_secret_name
from appliance.model.support.pseudonyms import Pseudonyms, pseudonym_of_serial

FORMAT: Final = 1
# Of each of these keys the value identifies a machine, a place or a person (DMTF DSP0268).
_IDENTITY: Final = re.compile(
    r"(?:\w*Serial\w*|\w*UUID|AssetTag|\w*ServiceTag|SKU|DurableName|\w*WWNN?|\w*WWPN|WWN\w*"
    r"|HostName|FQDN|UserName|\w*EMail\w*|ContactName|PhoneNumber|NodeGUID|\w*GUID)",
    re.I,
)
_SECRET: Final = re.compile(
    r"\w*(?:Passw|Secret|Token|Credential|CertificateString|PublicKey|LicenseString|Community"
    r"|Passphrase|PSK|PrivateKey|EncryptionKey|AuthorizedKeys)\w*",
    re.I,
)
_MAC_KEY: Final = re.compile(r"\w*(?:MAC|NetworkAddresses|PermanentAddress)\w*", re.I)
_MAC: Final = re.compile(r"[0-9A-Fa-f]{2}(?:[:-]?[0-9A-Fa-f]{2}){5}")
_VERSION: Final = re.compile(r"\w*(?:Version|Revision|FirmwareVersion)\w*|@odata\.type", re.I)
# Shorter ones are words of everybody's: 1, CPU, eth0.
_SHORTEST: Final = 4
_DEEPEST: Final = 40
# No path of a service.
_MISSING: Final = "missing"


def scrubbed(
    resources: Mapping[str, Mapping[str, Any]], key: bytes, secrets: Collection[str] = ()
) -> dict[str, dict[str, Any]]:
    """The tree with pseudonyms; paths are replaced as links to them are.

    Args:
        resources: path -> resource.
        key: a secret; who has it not cannot guess what a pseudonym stands for.
        secrets: values that must not be in the result, such as the login.

    Raises:
        ValueError: a secret or an identity is still in the result: nothing may be written.
    """
    truths = sorted(set(_identities(resources.values())))
    names = {truth: pseudonym_of_serial(truth, key) for truth in truths}
    plain = Pseudonyms(key, {})
    for mac in sorted(set(_macs(resources.values()))):
        other = plain.replace(mac)
        for mark in ("", "-", ":", "."):
            names[mark.join(_pairs(mac))] = mark.join(_pairs(other))
    names |= {secret: "redacted" for secret in secrets if len(secret) >= _SHORTEST}
    pseudonyms = Pseudonyms(key, names)
    found = {
        pseudonyms.replace(path): _scrub(resource, pseudonyms)
        for path, resource in resources.items()
    }
    left = _left([found], names)
    if left:
        raise ValueError(f"{len(left)} values are still in the recording")
    return found


def recording(
    resources: Mapping[str, Mapping[str, Any]],
    missing: Mapping[str, str],
    about: str,
    key: bytes,
    secrets: Collection[str] = (),
) -> str:
    """The text of a fixture: the scrubbed tree, with one resource a line.

    Args:
        resources: path -> resource.
        missing: path -> why it was not read.
        about: what is recorded, and by what.
        key: as for :func:`scrubbed`.
        secrets: as for :func:`scrubbed`.

    Raises:
        ValueError: as by :func:`scrubbed`.
    """
    found = scrubbed({**resources, _MISSING: missing}, key, secrets)
    missed = found.pop(_MISSING)
    head = {"format": FORMAT, "origin": "recorded", "about": about, "missing": missed}
    lines = ["{", *(f" {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items())]
    body = ",\n".join(
        f"  {json.dumps(path)}: {json.dumps(resource)}" for path, resource in found.items()
    )
    return "\n".join([*lines, ' "resources": {', body, " }", "}", ""])


def _scrub(value: Any, pseudonyms: Pseudonyms, key: str = "", depth: int = 0) -> Any:
    if depth > _DEEPEST:
        return None
    if isinstance(value, Mapping):
        return {
            _key(str(inner), pseudonyms): None
            if _is_secret(str(inner), part)
            else _scrub(part, pseudonyms, str(inner), depth + 1)
            for inner, part in value.items()
        }
    if isinstance(value, list):
        return [_scrub(part, pseudonyms, key, depth + 1) for part in value]
    if not isinstance(value, str) or _VERSION.fullmatch(key):
        return value
    return pseudonyms.replace(value)


def _key(key: str, pseudonyms: Pseudonyms) -> str:
    """A key without identities; one of letters alone is a word of the schema."""
    return pseudonyms.replace(key) if re.search("[0-9]", key) else key


def _is_secret(key: str, value: object) -> bool:
    """Whether a value is a secret by its key; a number or a link is none."""
    secret = _SECRET.fullmatch(key) is not None or is_secret_name(key)
    return secret and isinstance(value, str)


def _identities(values: Iterable[Any]) -> Iterator[str]:
    for key, text in _texts(values):
        if not _IDENTITY.fullmatch(key) or len(text.strip()) < _SHORTEST:
            continue
        if told_serial(text) and told_uuid(text):
            yield text.strip()


def _macs(values: Iterable[Any]) -> Iterator[str]:
    for key, text in _texts(values):
        if _MAC_KEY.fullmatch(key) and _MAC.fullmatch(text.strip()):
            yield ":".join(_pairs(text.strip()))


def _pairs(mac: str) -> list[str]:
    digits = re.sub("[^0-9A-Fa-f]", "", mac)
    return [digits[at : at + 2] for at in range(0, len(digits), 2)]


def _texts(values: Iterable[Any], key: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Every text with the key that it stands under."""
    if depth > _DEEPEST:
        return
    for value in values:
        if isinstance(value, str):
            yield key, value
        elif isinstance(value, Mapping):
            for inner, part in value.items():
                yield from _texts([part], str(inner), depth + 1)
        elif isinstance(value, list):
            yield from _texts(value, key, depth + 1)


def _left(found: Iterable[Any], names: Mapping[str, str]) -> list[str]:
    """What still stands as a word in a value; versions are not looked at."""
    texts = (text for key, text in _texts(found) if not _VERSION.fullmatch(key))
    lower = "\n".join(texts).lower()
    return [
        truth
        for truth in names
        if truth.lower() in lower
        and re.search(rf"(?<![A-Za-z0-9.]){re.escape(truth.lower())}(?![A-Za-z0-9.])", lower)
    ]
