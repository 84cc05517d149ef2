"""A damaged vault file is told as damaged, before any password is tried."""

import pytest

from appliance.adapters.site.vault import AnsibleVault, new_password
from appliance.adapters.site.vault_files import conflict_fault, vault_faults

FILE = "group_vars/all/vault.yml"


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    vault = AnsibleVault(new_password(tmp_path_factory.mktemp("site")))
    return vault.encrypt(f"vault_registry_password: {'k' * 200}\n").encode()


def problems(content: bytes) -> list[str]:
    return [f"{fault.line}: {fault.problem}" for fault in vault_faults(content, FILE, "restore")]


def test_a_whole_file_has_no_fault(sealed: bytes) -> None:
    assert problems(sealed) == []
    assert problems(sealed.replace(b"\n", b"\r\n")) == []


def test_a_file_that_ends_after_any_of_its_lines_is_cut_off(sealed: bytes) -> None:
    lines = sealed.splitlines(keepends=True)
    assert len(lines) > 8
    for kept in range(2, len(lines)):
        cut = b"".join(lines[:kept])
        assert problems(cut) == [f"{kept}: the encrypted text is cut off or damaged"], kept


def test_a_file_that_lost_a_line_or_a_digit_is_damaged(sealed: bytes) -> None:
    lines = sealed.splitlines(keepends=True)
    for damaged in (b"".join([*lines[:3], *lines[4:]]), sealed.rstrip()[:-1]):
        (problem,) = problems(damaged)
        assert problem.endswith(": the encrypted text is cut off or damaged")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\n<<<<<<< HEAD\nb: 1\n=======\nb: 2\n>>>>>>> other\n", 2),
        ("a: 1\nb: 2\n>>>>>>> other\n", 3),
        ("notes: |\n  <<<<<<< inside a text\n", None),
        ("# ======= a heading\n", None),
    ],
)
def test_merge_conflict_markers_are_found_by_line(text: str, line: int | None) -> None:
    fault = conflict_fault(text, "hosts.yml")
    assert (fault.line if fault else None) == line


def test_markers_of_a_conflict_in_a_vault_are_named(sealed: bytes) -> None:
    lines = sealed.splitlines(keepends=True)
    both = b"".join([*lines[:2], b"<<<<<<< HEAD\n", *lines[2:], b"=======\n", b">>>>>>> x\n"])
    assert problems(both) == ["3: git's merge conflict markers begin here"]
