"""The probe: one read-only process on a node, which prints its facts as one JSON document.

Shipped to the node as a zipapp, so everything here is Python 3.8 and standard library, and imports
nothing of the rest of the package. A module holds one group of sections; a section is a function
from a :class:`~appliance.probe.source.Source` to plain JSON values. What must not be here: any
change to the node, any secret (keys are compared by OpenSSL, never read into the document), any
opinion (whether a fact is good is decided by ``appliance.model.checks.preflight``).
"""

VERSION = "1"
