"""One call: it speaks, is heard, transcribed, answered, interrupted; and where the time went."""
