"""Tests of the scenario file."""
