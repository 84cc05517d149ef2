"""The site directory as text: documents, their faults with file and line, and what is written."""
