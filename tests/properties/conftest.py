"""Each property that holds is written down for docs/concepts/trust.md, if that is asked for."""

import pytest

from tests.trust import note


@pytest.fixture(autouse=True)
def _noted(request):
    yield
    tried = getattr(request.function, "_hypothesis_internal_use_settings", None)
    note("property", examples=tried.max_examples if tried else 1)
