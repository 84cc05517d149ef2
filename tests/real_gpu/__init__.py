"""Tests on a machine with an NVIDIA GPU and its driver; elsewhere they are skipped."""
