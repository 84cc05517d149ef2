"""A node's facts: the schema and reader of the probe's document, and hardware facts."""
