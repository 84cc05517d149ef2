"""One module per changing command: observe, plan, converge, verify.

Workflows see the outside world only through the Protocols in ``ports``; they never import an
adapter, never print (progress goes to an observer) and never end the process.
"""
