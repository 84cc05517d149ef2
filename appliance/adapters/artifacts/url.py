"""Files that their makers publish: fetched with resume, checked, taken out of their archive."""

from __future__ import annotations

import shutil
import tarfile
import urllib.error
import urllib.request
from http.client import HTTPException, HTTPResponse
from pathlib import Path

from appliance.adapters.artifacts import Context
from appliance.adapters.cache import digest_of, recipe_key
from appliance.errors import SourceUnavailable
from appliance.model.release import Artifact
from appliance.model.sources import UrlSource
from appliance.model.taken import Taken, TakenFile, Verified

_PATIENCE_SECONDS = 20
_CHUNK = 1 << 18
_USER_AGENT = "appliance"


class Url:
    """Takes a file from the web."""

    def take(self, artifact: Artifact, spec: UrlSource, context: Context) -> Taken:
        """Fetch a file, or recall it from the cache."""
        expected = spec.sha256 or context.locked.get(spec.url)
        verified: Verified = "sha256" if spec.sha256 else ("lock" if expected else "never")
        with context.cache.alone(spec.url):
            whole = self._whole(spec, expected, context)
            digest, size = (
                self._member(spec.member, whole, context) if spec.member else
                (whole, context.cache.path(whole).stat().st_size)
            )  # fmt: skip
        file = TakenFile(artifact.path, digest, size, executable=artifact.executable)
        return Taken("url", spec.ref, verified, (file,), learned=(spec.url, whole))

    def _whole(self, spec: UrlSource, expected: str | None, context: Context) -> str:
        if known := in_cache(spec, context):
            return known
        key = _key(spec)
        context.reach.require(spec.url)
        partial = context.cache.work("downloads") / key
        fetch(spec.url, partial)
        digest, size = digest_of(partial)
        if expected and digest != expected:
            partial.unlink()
            raise SourceUnavailable(
                f"{spec.url} has sha256 {digest}, expected {expected}: it was changed or damaged"
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
    """The sha256 of the whole file where the cache has it already."""
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
    wanted = member.removeprefix("./")
    for item in archive:
        if item.name.removeprefix("./") == wanted and item.isfile():
            stream = archive.extractfile(item)
            if stream is not None:
                with stream, destination.open("wb") as copy:
                    shutil.copyfileobj(stream, copy)
                return
    raise KeyError(member)


def fetch(url: str, partial: Path, headers: dict[str, str] | None = None) -> None:
    """Fetch a file to its end, going on where an earlier attempt was cut off.

    Raises:
        SourceUnavailable: the server does not have it, or the connection broke.
    """
    have = partial.stat().st_size if partial.exists() else 0
    asked = {"User-Agent": _USER_AGENT, **(headers or {})}
    if have:
        asked["Range"] = f"bytes={have}-"
    request = urllib.request.Request(url, headers=asked)  # noqa: S310 - addresses of a release
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE_SECONDS) as answer:  # noqa: S310
            _receive(answer, partial)
    except urllib.error.HTTPError as error:
        if error.code == 416 and have:
            return
        raise SourceUnavailable(f"{url} answers {error.code} {error.reason}") from error
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise SourceUnavailable(f"{url} can not be fetched: {reason}") from error


def _receive(answer: HTTPResponse, partial: Path) -> None:
    resumed = answer.status == 206
    expected = answer.headers.get("Content-Length")
    count = 0
    with partial.open("ab" if resumed else "wb") as sink:
        while piece := answer.read(_CHUNK):
            sink.write(piece)
            count += len(piece)
    if expected is not None and count != int(expected):
        raise HTTPException(f"the connection broke after {count} of {expected} bytes")
