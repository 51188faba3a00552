"""What happens to a fleet: before it serves (memory.py), and while it does (SimPy processes beside
the compiled pools)."""
