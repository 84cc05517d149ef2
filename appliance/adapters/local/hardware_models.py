"""The files under ``hardware/``: one for each model, and the role minima."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from appliance.adapters.local.content import find_content_root
from appliance.adapters.local.state_files import COMMITTABLE, replace_file
from appliance.errors import ConfigError
from appliance.model.state.facts.hardware_models import HardwareModel, RoleMinimum
from appliance.model.state.facts.hardware_shown import BiosSetting, Configuration, GpuCard

_ROLES = "roles.yml"
_GPUS = "gpus.yml"
_CONFIGURATIONS = "configurations.yml"
_BIOS = "bios.yml"
_Data = TypeVar("_Data", HardwareModel, RoleMinimum, GpuCard, Configuration, BiosSetting)


def hardware_names(directory: Path | None = None) -> tuple[str, ...]:
    """List the models, ``vendor/model``, without reading them."""
    directory = directory or find_content_root() / "hardware"
    return tuple(
        str(path.relative_to(directory).with_suffix(""))
        for path in sorted(directory.glob("*/*.yml"))
    )


def load_hardware(directory: Path | None = None) -> Mapping[str, HardwareModel]:
    """Read every model, by its name.

    Raises:
        ConfigError: the file of a model is invalid.
    """
    directory = directory or find_content_root() / "hardware"
    return {
        name: _checked(path := directory / f"{name}.yml", HardwareModel, _read(path))
        for name in hardware_names(directory)
    }


def load_role_minima(directory: Path | None = None) -> Mapping[str, RoleMinimum]:
    """Read the minimum hardware of each group.

    Raises:
        ConfigError: the file is invalid.
    """
    path = (directory or find_content_root() / "hardware") / _ROLES
    return {group: _checked(path, RoleMinimum, data) for group, data in _read(path).items()}


def load_gpus(directory: Path | None = None) -> Mapping[str, GpuCard]:
    """Read the GPUs that the models name.

    Raises:
        ConfigError: the file is invalid.
    """
    path = (directory or find_content_root() / "hardware") / _GPUS
    return {name: _checked(path, GpuCard, data) for name, data in _read(path).items()}


def load_configurations(directory: Path | None = None) -> Mapping[str, Configuration]:
    """Read the configurations of servers.

    Raises:
        ConfigError: the file is invalid.
    """
    path = (directory or find_content_root() / "hardware") / _CONFIGURATIONS
    return {name: _checked(path, Configuration, data) for name, data in _read(path).items()}


def load_bios_settings(directory: Path | None = None) -> Mapping[str, BiosSetting]:
    """Read the BIOS settings that matter, by the names that people call them.

    Raises:
        ConfigError: the file is invalid.
    """
    path = (directory or find_content_root() / "hardware") / _BIOS
    return {name: _checked(path, BiosSetting, data) for name, data in _read(path).items()}


def _checked(path: Path, model: type[_Data], data: Any) -> _Data:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise ConfigError(
            f"{path} does not describe hardware",
            details=[
                f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()
            ],
            hint="compare it with hardware/README.md",
        ) from error


def _read(path: Path) -> dict[str, Any]:
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    return data if isinstance(data, dict) else {}


def write_learnt(folder: Path, name: str, model: HardwareModel, learnt: Mapping[str, Any]) -> Path:
    """Write a model's file with what a machine showed; what people wrote in it is kept as data.

    Args:
        folder: where files of models lie, or will lie.
        name: vendor/model.
        model: the file so far.
        learnt: the keys that change.

    Raises:
        ConfigError: the file cannot be written.
    """
    path = folder / f"{name}.yml"
    data = {**model.model_dump(mode="json", exclude_defaults=True), **learnt}
    text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=110)
    head = "---\n# Written by `hardware inspect --write`: `shows` is of a real machine.\n"
    try:
        replace_file(path, head + text, mode=COMMITTABLE)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror}",
            hint="name another folder: --write FOLDER",
        ) from error
    return path
