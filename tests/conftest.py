"""What tests of several folders share: a run of its own, its groups, and the real bundle.

A run is many processes of pytest-xdist (``-n``): files stay together, and so do the files that
share a lab. Labs wait more than they work, so a few of them side by side cost little.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import FrameType

import pytest

from tests import this_run
from tests.this_run import built_bundle

HERE = Path(__file__).parent
# In the order in which they begin: the longest first.
LABS = {
    "install": ("refusals", "install", "drift", "rejoin", "health", "bmc", "membership", "faults"),
    "runai": ("runai/",),
    "applications": (
        *("storage", "runai_refusals", "node_roles", "runbooks", "access"),
        *("runai_waits", "vendor_bundle"),
    ),
    "gpu": ("gpu/",),
}
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Spread tests by the groups below, in the order below."""
    if getattr(config.option, "numprocesses", None):
        config.option.dist = "loadgroup"
        config.option.loadscopereorder = False


def pytest_configure(config: pytest.Config) -> None:
    """Begin a run, whose processes end by a signal even where their parent ignored it."""
    config.stash[BEGAN] = this_run.begin()
    for number in SIGNALS:
        signal.signal(number, _interrupt)
    if hasattr(config, "workerinput"):  # a worker does not hear of what was chosen above
        config.option.loadgroup = True


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave nothing behind, however the run ended."""
    if config.stash[BEGAN] and not os.environ.get("APPLIANCE_TEST_KEEP"):
        this_run.end()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put labs first, each with the files that tell its story in their order, then by file."""
    places = {name: n for n, name in enumerate(name for names in LABS.values() for name in names)}
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group(item)))
    items.sort(key=lambda item: places.get(_place(item.path), len(places)))


def _place(path: Path) -> str:
    """A file of tests/lab as the table above names it."""
    inside = _inside(path).parts
    if inside[0] != "lab":
        return ""
    return f"{inside[1]}/" if len(inside) > 2 else path.stem.removeprefix("test_")


def _group(item: pytest.Item) -> str:
    """The name of the tests that one process takes together: a lab's, else a file's."""
    place, path = _place(item.path), _inside(item.path)
    if path.parts[0] == "molecule":
        return item.name
    return next((lab for lab, places in LABS.items() if place in places), path.as_posix())


def _inside(path: Path) -> Path:
    return path.relative_to(HERE) if path.is_relative_to(HERE) else path


def _interrupt(number: int, _frame: FrameType | None) -> None:
    for each in SIGNALS:  # once: what is being cleared away is not interrupted again
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt(signal.Signals(number).name)


BEGAN = pytest.StashKey[bool]()


@pytest.fixture(scope="session")
def bundle_directory() -> Path:
    """The bundle, built (or taken from the cache) by the real command."""
    return built_bundle()


@pytest.fixture(scope="session")
def standins_bundle() -> Path:
    """The same with the stand-ins of what a lab cannot have."""
    return built_bundle(standins=True)
