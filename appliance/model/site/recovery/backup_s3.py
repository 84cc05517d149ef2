"""What a site says of the S3-compatible server that keeps its backups."""

from __future__ import annotations

import re
from typing import Annotated, Final, Self

from pydantic import BeforeValidator, model_validator

from appliance.model.site import addresses
from appliance.model.site.fields import Flag, Settings, Text, wrong

HTTPS: Final = "https://"
HTTP: Final = "http://"
_REGION: Final = re.compile(r"[A-Za-z0-9-]{1,64}")
_MOST_PORT: Final = 65535


def _endpoint(value: object) -> str:
    text = value.rstrip("/") if isinstance(value, str) else ""
    address = text.removeprefix(HTTPS).removeprefix(HTTP)
    host, colon, port = address.partition(":")
    good_port = not colon or (
        port.isascii() and port.isdigit() and len(port) < 6 and 1 <= int(port) <= _MOST_PORT
    )
    good_host = addresses.is_address(host) or addresses.is_dns_name(host)
    if address != text and good_host and good_port:
        return text
    raise wrong(
        "the endpoint is not https://HOST[:PORT]", "write it like https://s3.appliance.example:9000"
    )


def _region(value: object) -> str:
    if isinstance(value, str) and _REGION.fullmatch(value):
        return value
    raise wrong(f"{value!r} is not a region", "write it like us-east-1, or as the server calls it")


class S3(Settings):
    """The server of `to: s3://BUCKET/PREFIX`; its key is in the vault."""

    endpoint: Annotated[str, BeforeValidator(_endpoint)]
    """https://HOST[:PORT] of the server."""
    region: Annotated[str, BeforeValidator(_region)] = "us-east-1"
    """As the server calls it; most servers of your own take us-east-1."""
    ca: Text | None = None
    """Path of the CA that vouches for it, from the site's directory; null: this machine's CAs."""
    plain_http: Flag = False
    """true: an endpoint without TLS is accepted: its names and sizes can be read on the way."""

    @model_validator(mode="after")
    def _require_tls(self) -> Self:
        if not self.is_secure and not self.plain_http:
            raise wrong(
                "the endpoint has no TLS",
                "write https://, or acknowledge it: plain_http: true",
            )
        return self

    @property
    def is_secure(self) -> bool:
        """Whether it speaks TLS."""
        return self.endpoint.startswith(HTTPS)

    @property
    def address(self) -> str:
        """HOST[:PORT] of the server."""
        return self.endpoint.removeprefix(HTTPS).removeprefix(HTTP)
