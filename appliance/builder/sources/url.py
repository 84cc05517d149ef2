"""Published files: fetched with resume, checked, and extracted from their archive."""

from __future__ import annotations

import re
import shutil
import tarfile
import urllib.error
import urllib.request
from http.client import HTTPException, HTTPResponse
from pathlib import Path

from appliance.adapters.local.cache import digest_of, recipe_key
from appliance.builder.sources.source import Context
from appliance.errors import SourceUnavailable
from appliance.model.bundle.builds.fetched import FetchedArtifact, FetchedFile, Verified
from appliance.model.bundle.release.release import Artifact
from appliance.model.bundle.release.sources import UrlSource

_PATIENCE_SECONDS = 20
_CHUNK = 1 << 18
_USER_AGENT = "appliance"
_MOST_BYTES = 32 << 30
_VALIDATOR = re.compile(r"[\x21-\x7e][\x20-\x7e]{0,250}")


class Url:
    """Fetches a file from the web."""

    def fetch(self, artifact: Artifact, spec: UrlSource, context: Context) -> FetchedArtifact:
        """Fetch a file, or recall it from the cache."""
        expected = spec.sha256 or context.locked.get(spec.url)
        verified: Verified = "sha256" if spec.sha256 else ("lock" if expected else "never")
        with context.cache.alone(spec.url):
            whole = self._whole(spec, expected, context)
            digest, size = (
                self._member(spec.member, whole, context) if spec.member else
                (whole, context.cache.path(whole).stat().st_size)
            )  # fmt: skip
        file = FetchedFile(artifact.path, digest, size, executable=artifact.executable)
        return FetchedArtifact("url", spec.ref, verified, (file,), learned=(spec.url, whole))

    def _whole(self, spec: UrlSource, expected: str | None, context: Context) -> str:
        if known := in_cache(spec, context):
            return known
        key = _key(spec)
        context.reach.require(spec.url)
        partial = context.cache.work("downloads") / key
        fetch(spec.url, partial, vouched=expected is not None)
        digest, size = digest_of(partial)
        if expected and digest != expected:
            partial.unlink()
            raise SourceUnavailable(
                f"{spec.url} has sha256 {digest}, expected {expected}: changed or damaged"
            )
        context.cache.adopt(partial)
        context.cache.remember(key, {"sha256": digest, "size": size})
        return digest

    def _member(self, member: str, whole: str, context: Context) -> tuple[str, int]:
        key = recipe_key({"kind": "member", "of": whole, "member": member})

        def extracted() -> Path:
            landing = context.cache.work("members") / key
            try:
                with tarfile.open(context.cache.path(whole)) as archive:
                    _extract(archive, member, landing)
            except (tarfile.TarError, KeyError, EOFError) as error:
                raise SourceUnavailable(f"the archive has no readable {member}: {error}") from error
            return landing

        return context.cache.made(key, extracted)


def in_cache(spec: UrlSource, context: Context) -> str | None:
    """The sha256 of the whole file if the cache has it, else None."""
    expected = spec.sha256 or context.locked.get(spec.url)
    if expected:
        return expected if context.cache.path(expected).is_file() else None
    known = context.cache.recall(_key(spec))
    if known and context.cache.holds(known["sha256"], known["size"]):
        return str(known["sha256"])
    return None


def _key(spec: UrlSource) -> str:
    return recipe_key({"kind": "url", "url": spec.url})


def _extract(archive: tarfile.TarFile, member: str, destination: Path) -> None:
    path = member.removeprefix("./")
    for item in archive:
        if item.name.removeprefix("./") == path and item.isfile():
            stream = archive.extractfile(item)
            if stream is not None:
                with stream, destination.open("wb") as copy:
                    shutil.copyfileobj(stream, copy)
                return
    raise KeyError(member)


def fetch(
    url: str,
    partial: Path,
    headers: dict[str, str] | None = None,
    *,
    vouched: bool = True,
    most_bytes: int = _MOST_BYTES,
) -> None:
    """Fetch a whole file; resume an earlier attempt that was interrupted.

    Args:
        url: the address of the file.
        partial: the part that was fetched earlier; the rest is appended.
        headers: further headers of the request.
        vouched: its digest is known and will be compared. If it is not known, the download resumes
            only if the server's validator shows the same file; else it starts again.
        most_bytes: the size limit.

    Raises:
        SourceUnavailable: the server does not have the file, or the connection broke.
    """
    validator = partial.with_name(f"{partial.name}.validator")
    fields = {"User-Agent": _USER_AGENT, **(headers or {})}
    have = partial.stat().st_size if partial.exists() else 0
    known = validator.read_text("ascii", "replace") if have and validator.is_file() else ""
    if have and not (vouched or known):
        partial.unlink()
        have = 0
    if have:
        fields["Range"] = f"bytes={have}-"
        if known and not vouched:
            fields["If-Range"] = known
    request = urllib.request.Request(url, headers=fields)  # noqa: S310 - addresses of a release
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE_SECONDS) as answer:  # noqa: S310
            validator.write_text(_validator_of(answer), encoding="ascii")
            _receive(answer, partial, have, most_bytes)
    except urllib.error.HTTPError as error:
        # The server compared the validator: the file is the same, and there are no more bytes.
        if error.code == 416 and have:
            return
        raise SourceUnavailable(f"{url} answers {error.code} {error.reason}") from error
    except (OSError, ValueError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise SourceUnavailable(f"{url} cannot be fetched: {reason}") from error
    validator.unlink(missing_ok=True)


def _validator_of(answer: HTTPResponse) -> str:
    """The validator of this content, for the next attempt; empty if the server sends none."""
    tag, date = answer.headers.get("ETag") or "", answer.headers.get("Last-Modified") or ""
    strong = tag if not tag.startswith("W/") else ""
    return next((value for value in (strong, date) if _VALIDATOR.fullmatch(value)), "")


def _receive(answer: HTTPResponse, partial: Path, have: int, most_bytes: int) -> None:
    resumed = answer.status == 206
    begins = answer.headers.get("Content-Range", f"bytes {have}-")
    if resumed and not begins.startswith(f"bytes {have}-"):
        raise HTTPException(f"requested bytes from {have}, received {begins[:60]!r}")
    expected = answer.headers.get("Content-Length")
    count = 0
    with partial.open("ab" if resumed else "wb") as sink:
        while piece := answer.read(_CHUNK):
            count += len(piece)
            if count + (have if resumed else 0) > most_bytes:
                raise HTTPException(f"the file is larger than {most_bytes} bytes")
            sink.write(piece)
    if expected is not None and count != int(expected):
        raise HTTPException(f"the connection broke after {count} of {expected} bytes")
