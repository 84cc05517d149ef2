"""Images from a public registry: the distribution API, read anonymously, blob by blob.

A digest in the release verifies the whole image, because a manifest names its blobs by digest.
If the tag points to an index, the image of the target's architecture is fetched.
"""

from __future__ import annotations

import re
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any

from appliance.adapters.bundle.oci import DIGEST, Blob, referenced
from appliance.adapters.local.cache import digest_of, recipe_key
from appliance.builder.sources.oci.layout import INDEX_TYPE, MANIFEST_TYPE, blob_of
from appliance.builder.sources.source import Context
from appliance.builder.sources.url import fetch
from appliance.errors import SourceUnavailable
from appliance.model.bundle.builds.fetched import FetchedArtifact, FetchedFile, Verified
from appliance.model.bundle.release.release import Artifact
from appliance.model.bundle.release.sources import OciSource
from appliance.model.documents.strict_json import Unreadable, read_json

_DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
_INDEXES = {INDEX_TYPE, _DOCKER_LIST}
_ACCEPT = ", ".join((INDEX_TYPE, _DOCKER_LIST, MANIFEST_TYPE, _DOCKER_MANIFEST))
# Registries whose API host differs from the name in image references.
_API_HOSTS = {"docker.io": "registry-1.docker.io"}
_LOCAL = ("localhost", "127.0.0.1")
_PATIENCE_SECONDS = 20
_AT_A_TIME = 4
# Limit for a manifest, an index or a token.
_MOST_BYTES = 8 << 20
_TOKEN = re.compile(r"[\x21-\x7e]*")


class Oci:
    """Fetches an image from the registry in its reference."""

    def fetch(self, _artifact: Artifact, spec: OciSource, context: Context) -> FetchedArtifact:
        """Fetch an image's manifest and all its blobs, or recall them from the cache."""
        known = in_cache(spec, context)
        if known is not None:
            return known
        expected, key = _key(spec, context)
        fetched = _fetched(spec, expected, context)
        context.cache.remember(key, fetched.as_json())
        return fetched


def in_cache(spec: OciSource, context: Context) -> FetchedArtifact | None:
    """The image if the cache has all of it, else None."""
    known = context.cache.recall(_key(spec, context)[1])
    fetched = FetchedArtifact.parse(known) if known is not None else None
    complete = fetched and all(
        context.cache.holds(file.sha256, file.size) for file in fetched.files
    )
    return fetched if complete else None


def address_of(spec: OciSource) -> str:
    """The web address of the image's registry."""
    return _Repository.of(spec.reference).base


def _key(spec: OciSource, context: Context) -> tuple[str | None, str]:
    """The expected digest, if known, and the image's key in the cache."""
    locked = context.locked.get(spec.reference, "")
    expected = spec.digest or (f"sha256:{locked}" if locked else None)
    return expected, recipe_key({"kind": "oci", "spec": spec.model_dump(), "expected": expected})


def _fetched(spec: OciSource, expected: str | None, context: Context) -> FetchedArtifact:
    repository = _Repository.of(spec.reference)
    context.reach.require(repository.base)
    top, kind = repository.manifest(expected or repository.tag)
    digest = blob_of(top).sha256
    if expected and expected != f"sha256:{digest}":
        raise SourceUnavailable(f"{spec.reference} is sha256:{digest}, expected {expected}")
    raw, media_type = top, kind
    if kind in _INDEXES:
        variant = _of_architecture(_document(top, spec.reference), context.architecture)
        raw, media_type = repository.manifest(variant)
        if variant != f"sha256:{blob_of(raw).sha256}":
            raise SourceUnavailable(
                f"{spec.reference}: the registry has another manifest under {variant}"
            )
    try:
        blobs = referenced(_document(raw, spec.reference))
    except Unreadable as error:
        raise SourceUnavailable(f"{spec.reference}: its manifest: {error}") from error
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        list(pool.map(lambda blob: _fetch_blob(repository, blob, context), blobs))
    sha256, size = context.cache.add_bytes(raw)
    verified: Verified = "digest" if spec.digest else ("lock" if expected else "never")
    files = tuple(_file(blob) for blob in (*blobs, Blob(sha256, size)))
    return FetchedArtifact(
        "oci",
        spec.ref,
        verified,
        files,
        learned=(spec.reference, digest),
        image=sha256,
        media_type=media_type,
    )


@dataclass
class _Repository:
    """One repository of one registry, with its access token."""

    base: str
    name: str
    tag: str
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, reference: str) -> _Repository:
        host, _, rest = reference.partition("/")
        name, _, tag = rest.rpartition(":")
        host = _API_HOSTS.get(host, host)
        scheme = "http" if host.split(":")[0] in _LOCAL else "https"
        return cls(f"{scheme}://{host}", name, tag)

    def manifest(self, which: str) -> tuple[bytes, str]:
        """The bytes of a manifest or index, and its media type."""
        url = f"{self.base}/v2/{self.name}/manifests/{which}"
        try:
            return self._get(url)
        except urllib.error.HTTPError as error:
            challenge = error.headers.get("WWW-Authenticate", "")
            if error.code != 401 or not challenge:
                raise SourceUnavailable(f"{url} answers {error.code} {error.reason}") from error
            self._log_in(challenge)
        except (OSError, ValueError, HTTPException) as error:
            raise SourceUnavailable(f"{url} cannot be fetched: {error}") from error
        try:
            return self._get(url)
        except (OSError, ValueError, HTTPException) as error:
            raise SourceUnavailable(f"{url} cannot be fetched: {error}") from error

    def blob_url(self, blob: Blob) -> str:
        return f"{self.base}/v2/{self.name}/blobs/sha256:{blob.sha256}"

    def _get(self, url: str) -> tuple[bytes, str]:
        request = urllib.request.Request(  # noqa: S310 - addresses of a release
            url, headers={**self.headers, "Accept": _ACCEPT}
        )
        with urllib.request.urlopen(request, timeout=_PATIENCE_SECONDS) as answer:  # noqa: S310
            content = answer.read(_MOST_BYTES + 1)
            if len(content) > _MOST_BYTES:
                raise HTTPException(f"the answer is longer than {_MOST_BYTES} bytes")
            return content, answer.headers.get_content_type()

    def _log_in(self, challenge: str) -> None:
        parameters = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
        realm = parameters.pop("realm", "")
        parameters.setdefault("scope", f"repository:{self.name}:pull")
        # Any other address (a file of this machine) is not a token server.
        if not realm.startswith(("https://", f"{self.base}/")):
            raise SourceUnavailable(f"{self.base} names an invalid token server: {realm[:200]!r}")
        url = f"{realm}?{urllib.parse.urlencode(parameters)}"
        try:
            answer = read_json(self._get(url)[0])
        except (OSError, ValueError, HTTPException) as error:
            raise SourceUnavailable(f"{realm} gives no token for {self.name}: {error}") from error
        fields = answer if isinstance(answer, dict) else {}
        token = fields.get("token") or fields.get("access_token") or ""
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise SourceUnavailable(f"{realm} gives no token for {self.name}")
        self.headers["Authorization"] = f"Bearer {token}"


def _document(content: bytes, reference: str) -> Any:
    try:
        return read_json(content)
    except Unreadable as error:
        raise SourceUnavailable(f"{reference}: the registry's answer: {error}") from error


def _of_architecture(index: Any, architecture: str) -> str:
    listed = index.get("manifests") if isinstance(index, dict) else None
    for item in listed if isinstance(listed, list) else ():
        platform = item.get("platform") if isinstance(item, dict) else None
        if not isinstance(platform, dict):
            continue
        if (platform.get("os"), platform.get("architecture")) == ("linux", architecture):
            digest = item.get("digest")
            if isinstance(digest, str) and DIGEST.fullmatch(digest):
                return digest
            raise SourceUnavailable(f"{str(digest)[:100]!r} is not a sha256 digest")
    raise SourceUnavailable(f"the image has no variant for {architecture}")


def _fetch_blob(repository: _Repository, blob: Blob, context: Context) -> None:
    if context.cache.holds(blob.sha256, blob.size):
        return
    with context.cache.alone(blob.sha256):
        partial = context.cache.work("downloads") / blob.sha256
        fetch(repository.blob_url(blob), partial, repository.headers, most_bytes=blob.size)
        sha256, _ = digest_of(partial)
        if sha256 != blob.sha256:
            partial.unlink()
            raise SourceUnavailable(f"a layer of {repository.name} is damaged: {blob.sha256}")
        context.cache.adopt(partial)


def _file(blob: Blob) -> FetchedFile:
    return FetchedFile(f"images/blobs/sha256/{blob.sha256}", blob.sha256, blob.size)
