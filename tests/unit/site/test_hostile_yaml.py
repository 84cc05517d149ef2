"""Every construct of YAML that cannot be read is a fault with its line, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from appliance.adapters.site.files import check_site
from appliance.adapters.site.yaml_lines import MOST_BYTES, read_yaml
from tests.site_cases import KNOWN, copy_of_good

VALUES: dict[str, str] = {
    "an empty int": '!!int ""',
    "a bool that is none": "!!bool x",
    "a timestamp that is none": "!!timestamp x",
    "a float that is none": "!!float x",
    "a null that is a list": "!!null []",
    "sexagesimals without end": "1" + ":20" * 3000 + ".5",
    "an int in sexagesimals": "1" + ":20" * 300,
    "a date that is none": "2001-99-99",
    "a number of 5000 digits": "9" * 5000,
    "a hexadecimal number of 5000 digits": "0x" + "f" * 5000,
    "a number of 65 bits": str(1 << 63),
    "infinity": ".inf",
    "no number": ".nan",
    "half a character": r'"\ud800"',
    "an escape sequence": r'"\x1b[2K"',
    "a NUL": r'"\0"',
    "brackets in each other": "[" * 400 + "]" * 400,
    "braces in each other": "{a: " * 400 + "}" * 400,
    "a tag with an escape sequence": "!<%1b[2K> x",
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
@pytest.mark.parametrize("form", ["a: 1\nb: {}\n", "a: 1\nb:\n  - {}\n", "a: 1\nb: {{c: {}}}\n"])
def test_what_cannot_be_read_is_a_fault_with_its_line(form: str, value: str) -> None:
    _, faults = read_yaml(form.format(value).encode(), "x.yml")
    assert faults
    assert {fault.line for fault in faults} <= {2, 3}
    for fault in faults:
        assert str(fault).isprintable()
        assert len(str(fault)) < 400


@pytest.mark.parametrize("key", [r'"\ud800"', r'"\x1b"', "!!int x", "? [a]\n", "2001-99-99"])
def test_a_key_that_cannot_be_read_is_a_fault(key: str) -> None:
    _, faults = read_yaml(f"a: 1\n{key}: 2\n".encode(), "x.yml")
    assert faults
    assert all(str(fault).isprintable() for fault in faults)


def test_depth_size_and_number_are_limited() -> None:
    deep = "".join(f"{' ' * n}a:\n" for n in range(200)).encode()
    (fault,) = read_yaml(deep, "x.yml")[1]
    assert (fault.line, "levels" in fault.problem) == (40, True)
    (fault,) = read_yaml(b"a:\n" + b"- 1\n" * 60_000, "x.yml")[1]
    assert "50000 values" in fault.problem
    (fault,) = read_yaml(b"a: " + b"x" * MOST_BYTES, "x.yml")[1]
    assert "larger than" in fault.problem


def test_a_pipe_or_a_device_in_a_site_is_a_fault(tmp_path: Path) -> None:
    site = copy_of_good(tmp_path / "rack7")
    (site / "hosts.yml").unlink()
    os.mkfifo(site / "hosts.yml")
    (site / "group_vars/all/site.yml").unlink()
    (site / "group_vars/all/site.yml").symlink_to("/dev/zero")
    problems = [fault.problem for fault in check_site(site, known=KNOWN).faults]
    assert sum("not a regular file" in problem for problem in problems) == 2
