"""The allowed forms of values in a probe's document: length and characters."""

from __future__ import annotations

from datetime import datetime
from ipaddress import ip_address, ip_interface, ip_network
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints


def _text(most: int, pattern: str | None = None) -> Any:
    return StringConstraints(max_length=most, pattern=pattern)


def _address(value: str) -> str:
    ip_address(value)
    return value


def _with_prefix(value: str) -> str:
    ip_interface(value)
    return value


def _network(value: str) -> str:
    if value != "default":
        ip_network(value, strict=False)
    return value


def _moment(value: str) -> str:
    datetime.fromisoformat(value)
    return value


Text = Annotated[str, _text(16_384)]
Word = Annotated[str, _text(1024)]
# Braces and percent signs could be used as a template.
Serial = Annotated[str, _text(128, r"^[^{}%]+$")]
Name = Annotated[str, _text(253, r"^[A-Za-z0-9._-]*$")]
Interface = Annotated[str, _text(32, r"^[A-Za-z0-9_.:@-]+$")]
Mac = Annotated[str, _text(64, r"^[0-9A-Fa-f:.]*$")]
Version = Annotated[str, _text(128, r"^[A-Za-z0-9.+~:_-]*$")]
Package = Annotated[str, _text(128, r"^[A-Za-z0-9][A-Za-z0-9.+:_-]*$")]
Image = Annotated[str, _text(512, r"^[A-Za-z0-9][A-Za-z0-9._/:@-]*$")]
Digest = Annotated[str, _text(71, r"^sha256:[0-9a-f]{64}$")]
Hex = Annotated[str, _text(64, r"^[0-9a-f]{64}$")]
Identifier = Annotated[str, _text(64, r"^[0-9A-Za-z-]*$")]
Path = Annotated[str, _text(4096)]
Address = Annotated[str, _text(64), AfterValidator(_address)]
WithPrefix = Annotated[str, _text(64), AfterValidator(_with_prefix)]
Network = Annotated[str, _text(64), AfterValidator(_network)]
Moment = Annotated[str, _text(32), AfterValidator(_moment)]
Count = Annotated[int, Field(ge=-1)]
Number = float | int
Scalar = str | bool | int | float | None
Words = Annotated[list[Word], Field(max_length=20_000)]


class Section(BaseModel):
    """Some fields of a document; other fields are kept unchanged."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)
