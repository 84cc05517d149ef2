"""C libraries of the stand-ins, compiled with the header that a Go module brings.

The header is the vendor's: it is taken from the module at build time, and never kept.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from appliance.adapters.local import processes
from appliance.adapters.local.cache import recipe_key
from appliance.builder.sources.go.programs import (
    c_compiler,
    go_environment,
    module_folder,
    require_libc,
)
from appliance.builder.sources.source import Context
from appliance.errors import CommandFailed, SourceUnavailable
from appliance.model.bundle.builds.fetched import FetchedArtifact, FetchedFile
from appliance.model.bundle.release.release import Artifact
from appliance.model.bundle.release.sources import CLibrarySource

_FLAGS = ("-shared", "-fPIC", "-Os", "-s", "-Wall", "-Wextra", "-Werror", "-Wl,--build-id=none")
_DECLARED = re.compile(r"^nvmlReturn_t\s+DECLDIR\s+(nvml\w+)\s*\(", re.MULTILINE)
_DEFINED = re.compile(r"^nvmlReturn_t\s+(nvml\w+)\s*\(", re.MULTILINE)
# NVML_ERROR_NOT_SUPPORTED.
_UNSUPPORTED = 3


class CLibrary:
    """The C compiler of this machine, and the Go client for the header."""

    def fetch(self, artifact: Artifact, spec: CLibrarySource, context: Context) -> FetchedArtifact:
        """Compile a library, or recall it from the cache."""
        for program in ("go", "gcc"):
            if processes.find_program(program) is None:
                raise SourceUnavailable(f"this machine has no {program}")
        if context.standins is None:
            raise SourceUnavailable("stand-ins need the option --standins")
        require_libc(context)
        source = context.standins / spec.path
        module = module_folder(spec.module, context)
        texts = [path.read_text("utf-8") for path in sorted(source.parent.glob("*.[ch]"))]
        key = recipe_key(
            {
                "kind": "c-library",
                "cc": c_compiler(),
                "flags": _FLAGS,
                "spec": spec.model_dump(exclude={"version"}),
                "sources": texts,
                "module": [(module / name).read_text("utf-8") for name in ("go.mod", "go.sum")],
            }
        )
        digest, size = context.cache.made(key, lambda: _made(spec, context, source, key))
        file = FetchedFile(artifact.path, digest, size)
        return FetchedArtifact("c-library", spec.ref, "own", (file,))


def _made(spec: CLibrarySource, context: Context, source: Path, key: str) -> Path:
    work = context.cache.work(f"c-{key[:16]}")
    module = work / "module"
    shutil.copytree(module_folder(spec.module, context), module, dirs_exist_ok=True)
    try:
        listed = processes.run(
            ["go", "list", "-f", "{{.Dir}}", spec.package],
            cwd=module, env=go_environment(context, cgo=True),
        )  # fmt: skip
        headers = Path(listed.stdout.strip())
        stubs = work / "stubs.c"
        stubs.write_text(stubs_for((headers / spec.header).read_text("utf-8"), [source]), "utf-8")
        library = work / spec.soname
        compile_library(library, spec.soname, headers, [source, stubs])
    except CommandFailed as error:
        raise SourceUnavailable(
            f"{spec.path} could not be compiled: {error.message}", details=error.details
        ) from error
    shutil.rmtree(module)
    return library


def compile_library(library: Path, soname: str, headers: Path, sources: Sequence[Path]) -> None:
    """Compile a shared library.

    Raises:
        CommandFailed: the compiler refused it; its words are the details.
    """
    # -isystem: the header is not ours to be free of warnings.
    words: list[str | Path] = [
        "gcc",
        *_FLAGS,
        "-isystem",
        headers,
        f"-Wl,-soname,{soname}",
        "-o",
        library,
    ]
    processes.run([*words, *sources])


def stubs_for(header: str, sources: Sequence[Path]) -> str:
    """C for each function that a header declares and no source defines: it is not supported."""
    defined = {name for path in sources for name in _DEFINED.findall(path.read_text("utf-8"))}
    missing = sorted(set(_DECLARED.findall(header)) - defined)
    return "".join(f"int {name}(void);\nint {name}(void) {{ return {_UNSUPPORTED}; }}\n"
                   for name in missing)  # fmt: skip
