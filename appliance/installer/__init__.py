"""What an operating system's installer runs, from the seed or the medium, on a bare server.

Each module is one program: Python 3.8, the standard library, no import from the package. What must
not be here: which disk or node is meant (the seed says it), and any secret.
"""
