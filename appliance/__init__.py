"""Provision and look after the Run:ai Appliance.

Layers (held by import-linter): ``cli`` -> ``workflows`` | ``adapters`` -> ``model`` -> ``errors``.
``probe`` runs on nodes and imports nothing from here; ``lab``, ``releases`` and ``docs`` are data.
"""

__version__ = "0.2.0.dev0"
