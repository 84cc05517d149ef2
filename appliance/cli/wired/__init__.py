"""The adapters of single commands; those of all are in :mod:`appliance.cli.wiring`."""
