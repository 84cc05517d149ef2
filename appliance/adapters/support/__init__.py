"""Gathers what a support bundle holds, writes the bundle, and reads one from outside."""
