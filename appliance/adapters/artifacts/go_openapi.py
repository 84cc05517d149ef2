"""The file that kube-apiserver lacks in its module: its OpenAPI definitions, generated at release.

``openapi-gen`` of the version that Kubernetes pins reads every package of the staging modules that
is marked for it. The module cache can not be written to, so the program is then built from a copy
of the Kubernetes module that has the file.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from appliance.adapters import processes
from appliance.adapters.cache import Cache, recipe_key
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
# A missing staging module does not fail the generator: it leaves its types out.
_DEFINITIONS = 1050
_LIMIT_SECONDS = 1800
_UNUSED = ("test", "docs", "api", "build", "cluster", "hack", "logo", "CHANGELOG", "LICENSES")


def openapi_module(module: Path, work: Path, environment: Mapping[str, str], cache: Cache) -> None:
    """Turn a wrapper of Kubernetes into one that has the generated file.

    Raises:
        SourceUnavailable: the generated file is not what a release of Kubernetes has.
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
    # A program that Go 1.19 built with -trimpath does not find the standard library by itself.
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
            f"the OpenAPI definitions of Kubernetes are not whole: {count}, not {_DEFINITIONS}"
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
        return [package for found in pool.map(of, _STAGING) for package in found]


def _folder_of(path: str, module: Path, environment: Mapping[str, str]) -> Path:
    listed = processes.run(
        ["go", "list", "-m", "-json", path], cwd=module, env=environment, timeout=600
    )
    found = json.loads(listed.stdout)
    actual = found.get("Replace", found)
    fetched = processes.run(
        ["go", "mod", "download", "-json", f"{actual['Path']}@{actual['Version']}"],
        cwd=module, env=environment, timeout=600,
    )  # fmt: skip
    return Path(json.loads(fetched.stdout)["Dir"])
