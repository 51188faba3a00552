"""Fleets: what engines that share a card do to each other (memory.py, gpu.py, plain arithmetic),
and what happens while they serve (SimPy processes beside the compiled pools).
"""
