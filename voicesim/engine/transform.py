"""Quantization and offload, applied to a profile: what they change of its numbers.

A step reads all weights once, so fewer bytes shorten ``memory_s`` in proportion (a fitted
``memory_s`` may hold more than that; then this flatters).  KV reads go by the bytes of the KV
cache, arithmetic by a stated factor: weights alone in few bits are dequantized and multiplied as
before.  Offloaded weights free their memory and come to the card over its bus, as many as a step
touches.  What it costs in quality is not computed: the user states it.
"""

from __future__ import annotations

from typing import Any

from voicesim.engine.profile import DecodeCost, Memory, Profile, ProfileError, Quantity


def transformed(profile: Profile, change: Any) -> Profile:
    """The profile under a scenario's ``engine.transform`` (None: as it is), its origin noted.

    Raises ProfileError where the profile lacks what the change needs: a table of whole steps has
    no memory term, and without ``memory`` nothing is freed.
    """
    if change is None:
        return profile
    changes_weights = change.weights != 1.0 or change.offload is not None
    if profile.decode.table is not None and (changes_weights or change.compute != 1.0):
        found = "engine.transform cannot change a table of whole steps"
        raise ProfileError(profile.name, "decode.table", found, "use a fitted or roofline profile")
    if profile.memory is None and change.offload is not None:
        found = "engine.transform.offload needs the bytes of the weights"
        raise ProfileError(profile.name, "memory", found, "use a profile with memory")
    return profile.model_copy(
        update={
            "name": f"{profile.name} ({described(change)})",
            "decode": _decode(profile, change),
            "memory": _memory(profile.memory, change),
            "notes": [*profile.notes, f"transformed by the scenario: {described(change)}"],
        }
    )


def described(change: Any) -> str:
    """The change in a few words, with what it is said to cost."""
    found = [
        f"{name} x {value:g}"
        for name, value in (
            ("weights", change.weights), ("kv", change.kv), ("compute", change.compute)
        )
        if value != 1.0
    ]  # fmt: skip
    if change.offload is not None:
        found.append(f"{change.offload.share:.0%} of the weights in host memory")
    quality = change.quality
    if quality is not None and quality.mos is not None:
        found.append(f"MOS {quality.mos:+g}, as stated")
    if quality is not None and quality.wer is not None:
        found.append(f"WER {quality.wer:+.1%}, as stated")
    return ", ".join(found) or "nothing"


def _decode(profile: Profile, change: Any) -> DecodeCost:
    d = profile.decode
    memory = d.memory_s.value * change.weights
    if change.offload is not None and profile.memory is not None:
        away = change.offload
        weight = profile.memory.weight_bytes.value * change.weights * away.share
        memory = memory * (1.0 - away.share) + weight * away.touched / away.bytes_per_s
    steep = d.prefill_per_token_s
    return d.model_copy(
        update={
            "memory_s": _assumed(memory),
            "memory_per_kv_token_s": _assumed(d.memory_per_kv_token_s.value * change.kv),
            "compute_s": _assumed(d.compute_s.value * change.compute),
            "compute_per_token_s": _assumed(d.compute_per_token_s.value * change.compute),
            "prefill_per_token_s": steep and _assumed(steep.value * change.compute),
        }
    )


def _memory(memory: Memory | None, change: Any) -> Memory | None:
    if memory is None:
        return None
    here = 1.0 - (change.offload.share if change.offload is not None else 0.0)
    return memory.model_copy(
        update={
            "weight_bytes": _assumed(memory.weight_bytes.value * change.weights * here),
            "kv_bytes_per_token": _assumed(memory.kv_bytes_per_token.value * change.kv),
        }
    )


def _assumed(value: float) -> Quantity:
    return Quantity(value=value, origin="assumed")
