"""Operations on this tool itself; no node takes part."""
