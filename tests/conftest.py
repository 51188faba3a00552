"""Settings of all tests."""

from hypothesis import settings

# how long an example takes depends on the machine, and is nothing to assert
settings.register_profile("voicesim", deadline=None)
settings.load_profile("voicesim")
