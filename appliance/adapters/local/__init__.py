"""This machine: files, processes, programs, clock and the product's content."""
