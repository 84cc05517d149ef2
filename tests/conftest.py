"""What tests of several folders share: a run of its own, its groups, and the real bundle.

A run is many processes of pytest-xdist (``-n``): files stay together, and so do the files that
share a lab. Two at a time are the most that two cores carry.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from tests import this_run
from tests.this_run import built_bundle

# A machine that is busy for a moment is no fault of a case.
settings.register_profile("appliance", deadline=None)
settings.load_profile("appliance")

# The files that share a lab, in the order of their story.
STORY = (
    # "drift" replays the last run, which must be one with a bundle.
    *("connections", "refusals", "install", "drift", "rejoin", "health", "terminal"),
    "runai_refusals",
    *("storage", "node_roles", "bmc", "membership", "faults", "runbooks", "certificates"),
    "access",
    *("runai_waits", "vendor_bundle", "hostile_worker"),
)
# Whole labs of their own; a lab that waits costs a third of a core, so few are up at a time.
LAST = ("runai/", "gpu/")


def pytest_configure(config: pytest.Config) -> None:
    """Begin a run, whose processes end by a signal even where their parent ignored it."""
    config.stash[BEGAN] = this_run.begin()
    this_run.end_by_signals()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave nothing behind, however the run ended."""
    if config.stash[BEGAN] and not os.environ.get("APPLIANCE_TEST_KEEP"):
        this_run.end()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the story first and whole labs last: the other process has all else in the meantime."""
    places = {name: n for n, name in enumerate(STORY)} | dict.fromkeys(LAST, 2000)
    items.sort(key=lambda item: places.get(_place(item.nodeid), 1000))


class Groups(LoadScopeScheduling):  # type: ignore[misc] # pytest-xdist has no types
    """Gives a worker all tests of a group: those of one lab, of a file, or one scenario."""

    def _split_scope(self, nodeid: str) -> str:
        """The group of a test."""
        place = _place(nodeid)
        if nodeid.startswith("tests/molecule/"):
            return nodeid
        if place in LAST:
            return place
        return "story" if place in STORY else _file(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Groups:
    """Spread tests by these groups, in the order of the tests."""
    config.option.loadscopereorder = False
    return Groups(config, log)


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def _place(nodeid: str) -> str:
    """A file of tests/lab as the table above names it."""
    folder, *inside = _file(nodeid).removeprefix("tests/").split("/")
    if folder != "lab":
        return ""
    name = inside[0]
    return f"{name}/" if len(inside) > 1 else name.removeprefix("test_").removesuffix(".py")


BEGAN = pytest.StashKey[bool]()


@pytest.fixture(scope="session")
def bundle_directory() -> Path:
    """The bundle, built (or taken from the cache) by the real command."""
    return built_bundle()


@pytest.fixture(scope="session")
def standins_bundle() -> Path:
    """The same with the stand-ins of what a lab cannot have."""
    return built_bundle(standins=True)
