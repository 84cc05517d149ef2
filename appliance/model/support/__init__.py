"""What a support bundle holds and says: redaction, pseudonyms, limits, likely causes.

What must not be here: reading nodes, clusters or files, or writing an archive (adapters).
"""
