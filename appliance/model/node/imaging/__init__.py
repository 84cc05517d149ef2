"""What bare servers are installed from, and whether they may be: seeds, media, the wipe guard.

Pure: no files, no clocks, no network. What must not be here: driving a BMC, serving a file, or
building a medium.
"""
