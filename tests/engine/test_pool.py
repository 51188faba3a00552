"""The pool's arenas grow without changing anything."""

import dataclasses

from tests.engine.worlds import differences, random_world
from voicesim.engine.pool import Pool, record


def test_growing_changes_nothing():
    """Streams, timers and logged chunks beyond the first capacity: results as with room enough."""
    for seed in range(12):
        spec, tape = random_world(seed, max_num_seqs=2)
        spec = dataclasses.replace(spec, budget=spec.budget + 2)
        roomy = Pool(spec, tape)
        roomy.advance(spec.end)
        tight = Pool(spec, tape)
        for _ in range(3):
            tight.advance(tight.now + 0.7)
            tight._grow()
            rows = {**tight._rows, "slots": tight._rows["slots"] + 100}
            start = tight._rows["slots"]
            tight._allocate(rows)
            tight._free_slots(start)
            tight.view.refresh()
        tight.advance(spec.end)
        assert differences(record(tight), record(roomy)) == []
