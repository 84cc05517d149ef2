"""What a site says of its backups: an optional section of ``site.yml``."""

from __future__ import annotations

import re
from typing import Annotated, Final, Self

from pydantic import BeforeValidator, Field, StrictInt, model_validator

from appliance.model.site.fields import Flag, Settings, wrong
from appliance.model.site.recovery.backup_s3 import S3
from appliance.model.site.recovery.backup_targets import (
    S3_SCHEME,
    TARGET_EXAMPLES,
    FolderTarget,
    NoTarget,
    backup_target,
)

AGE: Final = re.compile(r"age1[02-9ac-hj-np-z]{58}")
SSH: Final = re.compile(r"ssh-ed25519 [A-Za-z0-9+/]{68}")


def normal_recipient(text: str) -> str:
    """The key without its comment and surrounding blanks."""
    words = text.split()
    return " ".join(words[:2] if words and words[0].startswith("ssh-") else words[:1])


def is_recipient(text: str) -> bool:
    """Whether it looks like a public key of age, or like an ssh-ed25519 key."""
    plain = normal_recipient(text)
    return bool(AGE.fullmatch(plain) or SSH.fullmatch(plain))


def _recipient(value: object) -> str:
    if isinstance(value, str) and is_recipient(value):
        return normal_recipient(value)
    shown = f"{value[:20]!r}" if isinstance(value, str) else f"{value!r}"
    raise wrong(
        f"{shown} is no public key for backups",
        "write one that begins with age1 or with ssh-ed25519: appliance cluster backup key FILE",
    )


def is_target(text: str) -> bool:
    """Whether it names a place for backups."""
    try:
        target = backup_target(text)
    except NoTarget:
        return False
    # A relative folder would be another one for each command.
    is_folder = isinstance(target, FolderTarget)
    return not is_folder or (text.startswith("/") and ".." not in text.split("/"))


def _target(value: object) -> str:
    if isinstance(value, str) and is_target(value):
        return value
    told = f"{value!r} is no place for backups"
    try:
        backup_target(value if isinstance(value, str) else "")
    except NoTarget as error:
        # An address may hold a password: it is not repeated.
        told = error.problem
    raise wrong(told, TARGET_EXAMPLES)


Recipient = Annotated[str, BeforeValidator(_recipient)]
Target = Annotated[str, BeforeValidator(_target)]


class Keep(Settings):
    """Which backups stay; every other one goes once a new one is whole."""

    count: Annotated[StrictInt, Field(ge=1, le=1000)] = 14
    """The newest so many stay, however old they are."""
    days: Annotated[StrictInt, Field(ge=1, le=3650)] = 30
    """Younger ones stay, however many they are."""


_AT: Final = re.compile(
    r"(?:daily|weekly (?P<day>mon|tue|wed|thu|fri|sat|sun)) "
    r"(?P<hour>[01][0-9]|2[0-3]):(?P<minute>[0-5][0-9])"
)


def _at(value: object) -> str:
    if isinstance(value, str) and _AT.fullmatch(value):
        return value
    raise wrong(
        f"{value!r} is no time for backups on a node",
        "write it as daily HH:MM or weekly mon HH:MM, in the node's own time: daily 02:30",
    )


At = Annotated[str, BeforeValidator(_at)]


class Schedule(Settings):
    """Backups that a control-plane node makes without a control host."""

    at: At
    """When: daily HH:MM, or weekly mon HH:MM, in the node's own time."""
    keep: Annotated[StrictInt, Field(ge=1, le=100)] = 3
    """The newest so many whole ones stay on the node; older ones go once a new one is whole."""
    enabled: Flag = True
    """false: no node has the timer; without the section, nobody takes off one that is there."""
    most_gb: Annotated[StrictInt, Field(ge=1, le=10_000)] = 50
    """All of them together are at most so large: a run that would need more fails, and says so."""

    @property
    def calendar(self) -> str:
        """The same in the words of systemd (systemd.time(7))."""
        found = _AT.fullmatch(self.at)
        if found is None:
            raise ValueError(self.at)
        day = (found["day"] or "").capitalize()
        return f"{day} *-*-* {found['hour']}:{found['minute']}:00".strip()

    @property
    def hours(self) -> int:
        """How many hours lie between two runs."""
        return 24 if self.at.startswith("daily") else 7 * 24


class Backup(Settings):
    """Backups of the whole appliance."""

    recipients: Annotated[tuple[Recipient, ...], Field(min_length=1, max_length=20)]
    """Public keys that open a backup (age1 or ssh-ed25519): yours, and one kept elsewhere."""
    to: Target
    """A folder of the control host, `sftp://USER@HOST[:PORT]/PATH`, or `s3://BUCKET/PREFIX`."""
    s3: S3 | None = None
    """The server of `to: s3://...`; null: none."""
    keep: Keep = Keep()
    fresh_hours: Annotated[StrictInt, Field(ge=1, le=8760)] = 26
    """A newest backup that is older gives a warning, and holds back maintenance and upgrades."""
    schedule: Schedule | None = None
    """Backups by a timer on one control-plane node; null: only by `cluster backup create`."""

    @model_validator(mode="after")
    def _require_server(self) -> Self:
        if self.to.startswith(S3_SCHEME) and self.s3 is None:
            raise wrong(
                "to names a bucket, and nothing says on which server",
                "write backup: s3: endpoint, too",
            )
        return self
