"""Each hardware model has a page, made from its file: a fact has a source, or says it has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.adapters.local.hardware_models import load_bios_settings, load_hardware
from appliance.model.checks.hardware.model_page import UNVERIFIED, model_page
from tests.contract.hardware_pages import FOLDER, pages
from tests.unit.bmc.fake_bios import MODELS


def test_every_model_has_its_page_and_no_page_is_left_over() -> None:
    assert {path for path in FOLDER.iterdir() if path.suffix == ".md"} == set(pages())
    assert len(pages()) == 4


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.stem)
def test_a_page_is_what_its_file_says(path: Path) -> None:
    rewrite = "run: python -m tests.contract.hardware_pages"
    assert path.read_text(encoding="utf-8") == pages()[path], rewrite


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.stem)
def test_a_page_names_every_source_of_the_file_and_no_path_of_a_menu(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    name = path.stem.replace("-", "/", 1)
    named = {"product", "also_called"}
    for source in load_hardware()[name].sources:
        assert source.fact in named or source.where in text
    assert UNVERIFIED in text
    assert "no path is given" in text
    assert not any(word in text for word in (" -> ", "Advanced >", "Chipset >"))


def test_a_setting_that_is_needed_has_a_source() -> None:
    settings = load_bios_settings()
    assert [name for name, one in settings.items() if one.needed and not one.source] == []
    assert [name for name, one in settings.items() if one.source and not one.needed] == []


def test_settings_that_a_model_asks_for_are_on_its_page() -> None:
    model = load_hardware(MODELS)["acme/bios"]
    text = model_page("acme/bios", model, load_bios_settings())
    assert (
        "- BIOS: `IOMMU` = `Enabled`: GPUs in virtual machines (not verified on a machine)" in text
    )
    assert "Above 4G" not in text
