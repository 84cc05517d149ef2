"""Commands that are printed to be typed: whole, whatever was typed, and with one site."""

from __future__ import annotations

import shlex
import time

import pytest

from appliance.cli.app import cli
from appliance.cli.screen.hints import again, remembering, runnable


@pytest.mark.parametrize(
    "words",
    [
        ["install", "--nodes", "a,b", "--site", "rack7"],
        ["install", "--bundle", ".", "--site", "rack7"],
        ["install", "--bundle", "/media/b.", "-s", "rack7"],
        ["--debug", "install", "--site", "rack7", "--nodes", "a,b"],
        ["node", "maintain", "w1", "--reason", "fan (2), it's loud", "--site", "r7"],
        ["node", "ssh", "w1", "--site", "r7", "--", "echo a; reboot, now"],
    ],
)
def test_the_same_command_is_the_same_command(words: list[str]) -> None:
    with remembering(words, cli):
        assert shlex.split(again(words)) == ["appliance", *words]


@pytest.mark.parametrize(
    ("words", "hint", "said"),
    [
        (["--site", "S"], "appliance install --only runai,gpu",
         "appliance install --only runai,gpu --site S"),
        (["--site", "S"], "appliance install --nodes a,b, then",
         "appliance install --nodes a,b --site S, then"),
        (["--site", "S"], "run: appliance node maintain w1 --reason 'a, b; c'",
         "run: appliance node maintain w1 --reason 'a, b; c' --site S"),
        (["--site", "S"], "'appliance status' or 'appliance plan'",
         "'appliance status --site S' or 'appliance plan --site S'"),
        (["-srack7"], "appliance plan", "appliance plan --site rack7"),
        (["--", "run", "--site", "other"], "appliance plan", "appliance plan"),
    ],
)  # fmt: skip
def test_a_site_is_added_behind_the_last_word(words: list[str], hint: str, said: str) -> None:
    with remembering(["plan", *words], cli):
        assert runnable(hint) == said


@pytest.mark.parametrize("piece", ["a,", ",a", "'a ", ".", "'\"'\"'", "appliance plan "])
def test_a_text_of_a_node_that_is_far_too_long_is_not_read_for_long(piece: str) -> None:
    began = time.process_time()
    with remembering(["plan", "--site", "S"], cli):
        runnable("appliance " + piece * (200_000 // len(piece)))
    assert time.process_time() - began < 5
