"""The tools that judge the tree, each run once over all of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract import tree

BIN = Path(sys.executable).parent
ENVIRONMENT = {
    "PATH": f"{BIN}:{os.environ['PATH']}",
    "NO_COLOR": "1",
    # Where our own modules are.
    "ANSIBLE_CONFIG": "playbooks/ansible.cfg",
}


def judge(*argv: str) -> None:
    """Run a tool of this environment; its words are the failure's."""
    done = subprocess.run(
        [BIN / argv[0], *argv[1:]],
        cwd=tree.ROOT,
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        check=False,
    )
    told = f"{done.stdout}\n{done.stderr}".strip()
    assert done.returncode == 0, f"{' '.join(argv)}\n{told[-12000:]}"


@pytest.mark.parametrize("argv", [("check",), ("format", "--check")], ids=["check", "format"])
def test_ruff_has_nothing_to_say(argv: tuple[str, ...]) -> None:
    judge("ruff", *argv, ".")


def test_mypy_is_satisfied_with_every_type() -> None:
    judge("mypy")


def test_ansible_lint_passes_at_its_strictest() -> None:
    judge("ansible-lint", "--config-file", ".config/ansible-lint.yml", "-q")


def test_nothing_is_skipped_in_ansible_lint() -> None:
    config = tree.load(Path(".config/ansible-lint.yml"))
    assert not config.get("skip_list")
    assert not config.get("warn_list")


def test_yamllint_has_nothing_to_say() -> None:
    judge("yamllint", "--strict", "-c", ".config/yamllint.yml", ".")


def test_words_are_spelled() -> None:
    judge("codespell")


def test_shellcheck_has_nothing_to_say() -> None:
    scripts = [str(path) for path in tree.files() if path.suffix == ".sh"]
    judge("shellcheck", "--severity=style", ".ci/run", *scripts)


def test_no_suppression_is_without_a_reason() -> None:
    silent = []
    for path in tree.files():
        if path.suffix not in {".py", ".yml", ".j2"} or path.is_relative_to("tests/contract"):
            continue
        for number, line in enumerate(tree.read(path).splitlines(), 1):
            comment = line.partition("# noqa")[2]
            if "# noqa" in line and not comment.startswith((":", " ")):
                silent.append(f"{path}:{number}: blanket noqa")
            if "# noqa" in line and path.suffix == ".yml" and len(comment.split()) < 3:
                silent.append(f"{path}:{number}: no reason")
    assert silent == []
