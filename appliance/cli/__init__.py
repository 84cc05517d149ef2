"""Click commands: parse, build a request, call one workflow, render.

``app.py`` is the only module that builds adapters and hands them to workflows.
"""
