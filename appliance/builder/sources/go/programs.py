"""Programs built by the ordinary Go client from a release's wrapper modules.

The wrapper's go.sum verifies every module. The program depends only on the recipe that is its key
in the cache: module files, package, flags, and the version of the Go (and C) compiler.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from pathlib import Path
from urllib.parse import urlsplit

from appliance.adapters.local import processes
from appliance.adapters.local.cache import recipe_key
from appliance.builder.sources.go.openapi import openapi_module
from appliance.builder.sources.source import Context
from appliance.errors import CommandFailed, SourceUnavailable
from appliance.model.bundle.builds.fetched import FetchedArtifact, FetchedFile
from appliance.model.bundle.release.release import Artifact
from appliance.model.bundle.release.sources import GoSource

_BUILD_LIMIT_SECONDS = 3600
_RECIPE = 1
_STATIC = '-linkmode external -extldflags "-static"'
# A function of a library that is loaded later has no address when the program starts.
_LOADING = '-extldflags "-Wl,-z,lazy -Wl,--export-dynamic"'
_NO_PART = {"at", "version", "minimum_go", "standin"}
# The package of the C library that programs are linked against.
_C_LIBRARY = "libc6"


class Go:
    """The Go client of this machine; it keeps all cores busy, so one build runs at a time."""

    def __init__(self) -> None:
        self._one_at_a_time = threading.Lock()
        self._version: str | None = None

    def fetch(self, artifact: Artifact, spec: GoSource, context: Context) -> FetchedArtifact:
        """Build a program, or recall it from the cache."""
        module = module_folder(spec.module, context)
        version = self._require(spec)
        if spec.loads:
            require_libc(context)
        key = recipe_key(
            {
                "kind": "go",
                "recipe": _RECIPE,
                "go": version,
                "cc": c_compiler() if spec.cgo or spec.loads else "",
                "module": [path.read_text("utf-8") for path in _texts(module)],
                "spec": spec.model_dump(exclude=_NO_PART | (set() if spec.loads else {"loads"})),
                "architecture": context.architecture,
            }
        )
        digest, size = context.cache.made(key, lambda: self._build(artifact, spec, context, key))
        file = FetchedFile(artifact.path, digest, size, executable=True)
        return FetchedArtifact("go", spec.ref, "gosum", (file,), details={"go": version})

    def _require(self, spec: GoSource) -> str:
        if processes.find_program("go") is None:
            raise SourceUnavailable("this machine has no Go toolchain")
        if (spec.cgo or spec.loads) and processes.find_program("gcc") is None:
            raise SourceUnavailable("this machine has no C compiler (gcc)")
        if self._version is None:
            self._version = processes.run(["go", "env", "GOVERSION"]).stdout.strip()
        if _numbers(self._version) < _numbers(spec.minimum_go):
            raise SourceUnavailable(
                f"found {self._version}, expected Go {spec.minimum_go} or later"
            )
        return self._version

    def _build(self, artifact: Artifact, spec: GoSource, context: Context, key: str) -> Path:
        work = context.cache.work(f"go-{key[:16]}")
        with self._one_at_a_time:
            return self._build_in(work, artifact, spec, context)

    def _build_in(self, work: Path, artifact: Artifact, spec: GoSource, context: Context) -> Path:
        module = work / "module"
        shutil.copytree(module_folder(spec.module, context), module, dirs_exist_ok=True)
        environment = go_environment(context, cgo=spec.cgo or spec.loads)
        if spec.generate == "kubernetes-openapi":
            openapi_module(module, work, environment, context.cache)
        linked = [_LOADING] if spec.loads else [_STATIC] if spec.cgo else []
        flags = ["-s", "-w", *spec.ldflags, *linked]
        program = work / artifact.name
        log = work / "build.log"
        try:
            processes.run(
                ["go", "build", "-trimpath", "-ldflags", " ".join(flags), "-o", program,
                 spec.package],
                cwd=module, env=environment, timeout=_BUILD_LIMIT_SECONDS, log=log,
            )  # fmt: skip
        except CommandFailed as error:
            kept = context.cache.root / "logs" / f"{artifact.name}.log"
            kept.parent.mkdir(exist_ok=True)
            shutil.copyfile(log, kept)
            raise SourceUnavailable(
                f"{spec.ref} could not be built: {error.message}: "
                + (error.details[-1] if len(error.details) > 1 else "it printed no error"),
                details=error.details,
                log_path=kept,
            ) from error
        shutil.rmtree(module)
        return program


def module_folder(name: str, context: Context) -> Path:
    """The folder with go.mod: a wrapper of the release, or a module of the lab's stand-ins."""
    wrapper = context.of_release(f"go/{name}")
    if context.standins is None or wrapper.is_dir():
        return wrapper
    return context.standins / name


def require_libc(context: Context) -> None:
    """Require that what is linked here against the C library starts on the target, too.

    Raises:
        SourceUnavailable: the C library of the target is older than this machine's.
    """
    here = os.confstr("CS_GNU_LIBC_VERSION") or ""
    closure = context.packages.closure((_C_LIBRARY,), essential=False)
    (there,) = (package.version for package in closure if package.name == _C_LIBRARY)
    if _numbers(there) < _numbers(here):
        raise SourceUnavailable(
            f"programs that are linked here need {here}, and the images have libc6 {there}"
        )


def _texts(module: Path) -> list[Path]:
    """What the program depends on: the module's files, and its own sources if it has any."""
    own = sorted(
        path
        for path in module.glob("*.go")
        if path.name != "tools.go" and not path.name.endswith("_test.go")
    )
    return [module / "go.mod", module / "go.sum", *own]


def go_environment(context: Context, *, cgo: bool) -> dict[str, str]:
    """The Go client's environment: modules as go.sum has them, and no other toolchain."""
    environment = {
        "CGO_ENABLED": "1" if cgo else "0",
        "GOOS": "linux",
        "GOARCH": context.architecture,
        "GOAMD64": "v1",
        "GOFLAGS": "-mod=readonly -buildvcs=false",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }
    if not _proxy_answers(context):
        # Fails at once with the name of a missing module, instead of waiting for each in turn.
        environment["GOPROXY"] = "off"
    return environment


def _proxy_answers(context: Context) -> bool:
    setting = processes.run(["go", "env", "GOPROXY"]).stdout.strip()
    first = re.split(r"[,|]", setting)[0]
    if urlsplit(first).scheme not in {"http", "https"}:
        return True
    return context.reach.why_not(first) is None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def c_compiler() -> str:
    """The C compiler of this machine and its version."""
    return processes.run(["gcc", "--version"]).stdout.splitlines()[0]
