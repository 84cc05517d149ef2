"""The parts of ``cluster upgrade``: one run, its look, its gates, and the ways on and back."""
