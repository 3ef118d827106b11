"""Classes over the engine: their arguments, calls, awaited calls and hosted calls."""
