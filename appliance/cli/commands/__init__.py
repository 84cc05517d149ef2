"""Click commands by noun. What must not be here: what several nouns share."""
