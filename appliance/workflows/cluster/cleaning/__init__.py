"""The areas of ``cluster cleanup``, each looked at and carried out on its own."""
