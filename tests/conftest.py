"""For all tests."""

from hypothesis import settings

settings.register_profile("vitrail", deadline=None)  # time says more about the machine than about us
settings.load_profile("vitrail")
