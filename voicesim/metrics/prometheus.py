"""Alert rules and a run's series as files for Prometheus: rules, OpenMetrics, a promtool test.

In the test file time 0 is the first evaluation, so that evaluations fall on multiples of their
interval (as promtool wants) and scrapes between them.  Formats:
https://prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules/ and
https://prometheus.io/docs/specs/om/open_metrics_spec/
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import yaml

from voicesim.metrics.alarms import COUNTERS, GAUGES, HISTOGRAMS, expression, promtime, watch
from voicesim.metrics.observed import Observed
from voicesim.metrics.promql import Clock
from voicesim.scenario.alarms import Alarm

EPOCH = 1_767_225_600
"""Unix time of second 0 of a run in series.om: 2026-01-01T00:00:00Z."""
SPELLS = 10
"""Alarms of a rule that the test file checks at most."""

HELP = {
    "vllm:num_requests_running": "Streams in the engine's running batch.",
    "vllm:num_requests_waiting": "Streams waiting at the engine, set once a step.",
    "vllm:kv_cache_usage_perc": "Share of KV blocks in use, 0 to 1.",
    "vllm:num_preemptions": "Streams thrown out of the KV cache, of all engines.",
    "voicesim:chunk_gap_ratio": "Gap before a chunk / audio of the chunk before it.",
    "voicesim:ttfa_seconds": "Request to first sound at the listener, retries included.",
    "vllm_omni:audio_ttfp_s": "Admission to first packet at the server.",
}
NOTES = {
    "voicesim:chunk_gap_ratio": "Neither vLLM nor vLLM-Omni exports this: let the gateway or the "
    "client count it, a histogram of the gap before a chunk / the audio of the chunk before it.",
    "voicesim:ttfa_seconds": "Measured at the listener, which no server sees: let the client "
    "count it.",
    "vllm_omni:audio_ttfp_s": "Interpolated in voicesim's buckets; a server's may be wider.",
    "vllm:kv_cache_usage_perc": "0 to 1 in spite of its name; vllm:gpu_cache_usage_perc before V1.",
}


@dataclass(frozen=True)
class Family:
    """series: (sample name with labels, values at each scrape) of a metric."""

    name: str
    kind: str
    series: list[tuple[str, np.ndarray]]


def families(seen: Observed, clock: Clock) -> Iterator[Family]:
    """Everything that can be scraped from a run."""
    rows = clock.scrapes(seen.bins)
    for name, column in GAUGES.items():
        values = getattr(seen, column)[rows]
        each = [(f'{name}{{engine="{g}"}}', values[:, g]) for g in range(values.shape[1])]
        yield Family(name, "gauge", each)
    for name, column in COUNTERS.items():
        yield Family(name, "counter", [(f"{name}_total", getattr(seen, column)[rows])])
    for name, (column, edges) in HISTOGRAMS.items():
        counts = getattr(seen, column)[rows]
        each = [(f'{name}_bucket{{le="{_le(e)}"}}', counts[:, i]) for i, e in enumerate(edges)]
        yield Family(name, "histogram", each)


def _le(edge: float) -> str:
    return "+Inf" if np.isinf(edge) else repr(float(edge))


def rules_file(rules: Sequence[Alarm], clock: Clock) -> str:
    """rules.yaml: one group, evaluated as often as in the back-test."""
    group = {
        "name": "voicesim",
        "interval": promtime(clock.evaluate * clock.bin_s),
        "rules": [
            {
                "alert": rule.label,
                "expr": expression(rule),
                **({"for": promtime(rule.hold)} if rule.hold else {}),
                "labels": dict(LABELS),
                "annotations": annotations(rule),
            }
            for rule in rules
        ],
    }
    return _yaml({"groups": [group]})


LABELS = {"severity": "warning"}


def annotations(rule: Alarm) -> dict[str, str]:
    """What the alert says, and what its metric needs."""
    side = "above" if rule.below is None else "below"
    window = f" over {promtime(rule.over)}" if rule.over else ""
    found = {"summary": f"{rule.signal.title}{window} {side} {threshold(rule)}"}
    note = NOTES.get(rule.signal.family)
    return found | ({"description": note} if note else {})


def threshold(rule: Alarm) -> str:
    """The threshold with its unit."""
    x = rule.threshold
    if rule.metric == "chunk_gap_p99":
        return f"{x:g}x the chunk's audio"
    if rule.metric == "kv_cache":
        return f"{100 * x:g}%"
    if rule.metric == "preemptions":
        return f"{x:g}/s"
    return promtime(x) if rule.metric.startswith("tt") else f"{x:g}"


# --- series -----------------------------------------------------------------------------------


def openmetrics(seen: Observed, clock: Clock) -> str:
    """series.om: the whole run with timestamps, for `promtool tsdb create-blocks-from`."""
    times = [f"{t:.3f}" for t in EPOCH + clock.scrapes(seen.bins) * seen.bin_s]
    lines = []
    for family in families(seen, clock):
        lines += [
            f"# TYPE {family.name} {family.kind}",
            f"# HELP {family.name} {HELP[family.name]}",
        ]
        columns = [(name, _texts(values)) for name, values in family.series]
        if family.kind == "histogram":  # the buckets of one time stand together
            lines += [f"{name} {v[k]} {t}" for k, t in enumerate(times) for name, v in columns]
        else:
            lines += [f"{name} {v[k]} {t}" for name, v in columns for k, t in enumerate(times)]
    return "\n".join([*lines, "# EOF", ""])


def _texts(values: np.ndarray) -> list[str]:
    return [repr(x) for x in values.tolist()]


# --- the unit test ----------------------------------------------------------------------------


def rules_test(seen: Observed, rules: Sequence[Alarm], clock: Clock) -> str:
    """rules_test.yaml: the run's series, and for each rule when it must and must not fire."""
    test = {
        "interval": promtime(clock.bin_s / 2),
        "input_series": input_series(seen, rules, clock),
        "alert_rule_test": [check for rule in rules for check in _checks(seen, rule, clock)],
    }
    every = promtime(clock.evaluate * clock.bin_s)
    return _yaml({"rule_files": ["rules.yaml"], "evaluation_interval": every, "tests": [test]})


def input_series(seen: Observed, rules: Sequence[Alarm], clock: Clock) -> list[dict[str, str]]:
    """The series that the rules need, in half bins from the first evaluation on."""
    needed = {rule.signal.family for rule in rules}
    between = 2 * clock.scrape
    phase = round(2 * clock.phase_s / clock.bin_s)
    start = (between - phase) * "_ "
    gap = f" _x{between - 1} "  # expands to that many missing samples
    return [
        {"series": name, "values": start + gap.join(_texts(values))}
        for family in families(seen, clock)
        if family.name in needed
        for name, values in family.series
    ]


def _checks(seen: Observed, rule: Alarm, clock: Clock) -> Iterator[dict[str, Any]]:
    """Each alarm of a rule: not before, at its start, at its last evaluation, not after."""
    fires = watch(seen, rule, clock).fires
    edges = np.flatnonzero(np.diff(fires.astype(np.int8)))[: 2 * SPELLS]
    at = sorted({0, len(fires) - 1, *edges.tolist(), *(edges + 1).tolist()})
    every = clock.evaluate * clock.bin_s
    alert = {"exp_labels": dict(LABELS), "exp_annotations": annotations(rule)}
    for j in at:
        yield {
            "eval_time": promtime(j * every),
            "alertname": rule.label,
            "exp_alerts": [alert] if fires[j] else [],
        }


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _yaml(content: Any) -> str:
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, width=1_000_000)
