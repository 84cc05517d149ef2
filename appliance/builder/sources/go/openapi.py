"""The OpenAPI definitions of kube-apiserver, which its Go module lacks.

Kubernetes generates them for each release: ``openapi-gen`` in the version that Kubernetes pins
reads every marked package of the staging modules. The Go module cache is read-only: the program is
built from a copy of the Kubernetes module with the generated file.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from appliance.adapters.local import processes
from appliance.adapters.local.cache import Cache, recipe_key
from appliance.errors import SourceUnavailable

_KUBERNETES = "k8s.io/kubernetes"
_GENERATOR = "k8s.io/kube-openapi/cmd/openapi-gen"
_TARGET = "pkg/generated/openapi"
_FILE = "zz_generated.openapi"
_STAGING = (
    "api", "apimachinery", "apiextensions-apiserver", "apiserver", "client-go", "cloud-provider",
    "component-base", "controller-manager", "kube-aggregator", "kube-controller-manager",
    "kube-proxy", "kube-scheduler", "kubelet", "metrics",
)  # fmt: skip
_MARK = "+k8s:openapi-gen=true"
# The generator does not fail on a missing staging module: it omits the module's types.
_DEFINITIONS = 1050
_LIMIT_SECONDS = 1800
_UNUSED = ("test", "docs", "api", "build", "cluster", "hack", "logo", "CHANGELOG", "LICENSES")


def openapi_module(module: Path, work: Path, environment: Mapping[str, str], cache: Cache) -> None:
    """Add the generated file to a wrapper of Kubernetes.

    Raises:
        SourceUnavailable: the generated file differs from that of a Kubernetes release.
    """
    sources = module / "src"
    original = _folder_of(_KUBERNETES, module, environment)
    shutil.rmtree(sources, ignore_errors=True)
    shutil.copytree(
        original, sources, copy_function=shutil.copyfile,
        ignore=lambda folder, _names: _UNUSED if Path(folder) == original else (),
    )  # fmt: skip
    # The copy of a read-only folder is read-only as well.
    for folder in (sources, *(path for path in sources.rglob("*") if path.is_dir())):
        folder.chmod(0o755)
    generated = _generated(module, work, environment, cache)
    shutil.copyfile(generated, sources / _TARGET / f"{_FILE}.go")
    processes.run(
        ["go", "mod", "edit", f"-replace={_KUBERNETES}=./src"], cwd=module, env=environment
    )


def _generated(module: Path, work: Path, environment: Mapping[str, str], cache: Cache) -> Path:
    key = recipe_key(
        {
            "kind": "kubernetes-openapi",
            "module": [(module / name).read_text("utf-8") for name in ("go.mod", "go.sum")],
            "staging": _STAGING,
        }
    )
    digest, _ = cache.made(key, lambda: _generate(module, work, environment))
    return cache.path(digest)


def _generate(module: Path, work: Path, environment: Mapping[str, str]) -> Path:
    generator = work / "openapi-gen"
    processes.run(
        ["go", "build", "-trimpath", "-o", generator, _GENERATOR],
        cwd=module, env=environment, timeout=_LIMIT_SECONDS,
    )  # fmt: skip
    # A program built by Go 1.19 with -trimpath needs GOROOT to find the standard library.
    root = processes.run(["go", "env", "GOROOT"], cwd=module, env=environment).stdout.strip()
    header = work / "header"
    header.write_text("", encoding="utf-8")
    output = work / "generated"
    processes.run(
        [generator, "--output-package", f"{_KUBERNETES}/{_TARGET}", "-O", _FILE,
         "--output-base", output, "--go-header-file", header,
         "--report-filename", work / "report",
         "--input-dirs", ",".join(_marked_packages(module, environment))],
        cwd=module, env={**environment, "GOROOT": root}, timeout=_LIMIT_SECONDS,
    )  # fmt: skip
    written = output / _KUBERNETES / _TARGET / f"{_FILE}.go"
    count = len(re.findall(r"^func schema_", written.read_text(encoding="utf-8"), re.MULTILINE))
    if count != _DEFINITIONS:
        raise SourceUnavailable(
            f"generated {count} OpenAPI definitions of Kubernetes, expected {_DEFINITIONS}"
        )
    return written


def _marked_packages(module: Path, environment: Mapping[str, str]) -> list[str]:
    def of(name: str) -> list[str]:
        path = f"k8s.io/{name}"
        folder = _folder_of(path, module, environment)
        marked = {
            file.parent.relative_to(folder)
            for file in folder.rglob("*.go")
            if _MARK in file.read_text(encoding="utf-8", errors="replace")
        }
        return [f"{path}/{below}" for below in sorted(map(str, marked))]

    with ThreadPoolExecutor(4) as pool:
        return [package for packages in pool.map(of, _STAGING) for package in packages]


def _folder_of(path: str, module: Path, environment: Mapping[str, str]) -> Path:
    listed = processes.run(
        ["go", "list", "-m", "-json", path], cwd=module, env=environment, timeout=600
    )
    listing = json.loads(listed.stdout)
    actual = listing.get("Replace", listing)
    fetched = processes.run(
        ["go", "mod", "download", "-json", f"{actual['Path']}@{actual['Version']}"],
        cwd=module, env=environment, timeout=600,
    )  # fmt: skip
    return Path(json.loads(fetched.stdout)["Dir"])
