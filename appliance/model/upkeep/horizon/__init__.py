"""Everything of an appliance that ends on a day: one list, and its calendar.

What must not be here: reading nodes or clocks, or renewing anything.
"""
