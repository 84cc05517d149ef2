"""Everything a person sees: tables, progress, questions and rerun commands."""
