"""Measurements: one file for each claim; `record/<machine>/` holds the runs that were kept."""
