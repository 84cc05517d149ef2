"""Kubernetes' generated definitions: how their generator is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.builder.sources.go.openapi import _generate
from appliance.errors import SourceUnavailable

# Go, as far as it is asked: every module is an empty folder, and what it builds is the generator.
GO = """#!/bin/sh
case "$1 $2" in
  "env GOROOT") echo /the/goroot ;;
  "list -m") echo '{"Path": "m", "Version": "v1"}' ;;
  "mod download") echo '{"Dir": "@EMPTY@"}' ;;
  build*) cp @GENERATOR@ "$4" ;;
esac
"""
GENERATOR = """#!/bin/sh
[ "$GOROOT" = /the/goroot ] || exit 1
while [ $# -gt 0 ]; do [ "$1" = --output-base ] && to=$2; shift; done
to=$to/k8s.io/kubernetes/pkg/generated/openapi
mkdir -p "$to" && : >"$to/zz_generated.openapi.go"
"""


def test_the_generator_is_told_where_the_standard_library_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "generator").write_text(GENERATOR)
    text = GO.replace("@EMPTY@", str(tmp_path / "empty"))
    (tmp_path / "go").write_text(text.replace("@GENERATOR@", str(tmp_path / "generator")))
    for name in ("go", "generator"):
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(
        SourceUnavailable, match="generated 0 OpenAPI definitions of Kubernetes, expected 1050"
    ):
        _generate(tmp_path, tmp_path, {})
