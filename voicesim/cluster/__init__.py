"""What happens to a fleet while it serves: SimPy processes beside the compiled pools."""
