"""Commands that ask more than one run can answer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from voicesim.cli import complete
from voicesim.cli.options import (
    Address,
    Backend,
    Json,
    Quiet,
    ScenarioPath,
    Seed,
    Sets,
    Workers,
    app,
    seconds_of,
)


@app.command(rich_help_panel="Decide")
def compare(
    file: ScenarioPath,
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Variant to compare with; default the first.",
            autocompletion=complete.variants,
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METRIC",
            help="What must be settled; repeatable; clean_share.",
            autocompletion=complete.metrics,
        ),
    ] = None,
    precision: Annotated[
        float, typer.Option(help="Half-width that is enough, of the baseline's mean.")
    ] = 0.1,
    width: Annotated[
        float | None, typer.Option(help="Half-width that is enough, in the metric's unit.")
    ] = None,
    max_replications: Annotated[
        int, typer.Option(min=2, help="Most replications of each variant.")
    ] = 40,
    first: Annotated[
        int | None, typer.Option(min=2, help="Replications before the first look; 8.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Wall time to begin runs in; 5min.")
    ] = None,
    workers: Workers = None,
    backend: Backend = "processes",
    address: Address = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Study folder; default runs/NAME-compare."),
    ] = None,
    sets: Sets = None,
    seed: Seed = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare variants under the same callers, with as many replications as it takes."""
    from voicesim.report.compare import compare_command

    code = compare_command(
        file, sets or (), seed, out, as_json, quiet, metric or (), baseline=baseline,
        precision=precision, width=width, max_replications=max_replications, first=first,
        budget=seconds_of("--budget", budget), workers=workers, backend=backend, address=address,
    )  # fmt: skip
    raise typer.Exit(code)


@app.command(rich_help_panel="Decide")
def plan(
    file: ScenarioPath,
    slo: Annotated[
        list[str], typer.Option(metavar="LIMIT", help="Such as 'clean>=99%'; repeatable.")
    ],
    vary: Annotated[
        list[str],
        typer.Option(
            metavar="KEY=LOW..HIGH",
            help="What to choose, with [:STEP]; once or twice.",
            autocompletion=complete.varied,
        ),
    ],
    variant: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Variant to plan for; default the first.",
            autocompletion=complete.variants,
        ),
    ] = None,
    confidence: Annotated[float, typer.Option(help="Of the answer as a whole.")] = 0.95,
    max_replications: Annotated[
        int, typer.Option(min=5, help="Most replications of each setting.")
    ] = 40,
    workers: Workers = None,
    backend: Backend = "processes",
    address: Address = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Study folder; default runs/NAME-plan."),
    ] = None,
    sets: Sets = None,
    seed: Seed = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find the cheapest setting that meets every SLO with a stated confidence."""
    from voicesim.report.plan import plan_command

    code = plan_command(
        file, slo, vary, sets or (), seed, out, as_json, quiet, variant=variant,
        confidence=confidence, max_replications=max_replications, workers=workers,
        backend=backend, address=address,
    )  # fmt: skip
    raise typer.Exit(code)


@app.command(rich_help_panel="Decide")
def sweep(
    file: ScenarioPath,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUES",
            help="LOW..HIGH[:STEP] or a,b,c; repeatable.",
            autocompletion=complete.varied,
        ),
    ] = None,
    lhs: Annotated[
        int | None, typer.Option(metavar="N", help="N settings of a Latin hypercube, no grid.")
    ] = None,
    settings: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Settings to play (CSV, header of keys).")
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METRIC",
            help="What to show; repeatable; clean_share.",
            autocompletion=complete.metrics,
        ),
    ] = None,
    variant: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Variant to vary; default the first.",
            autocompletion=complete.variants,
        ),
    ] = None,
    replications: Annotated[int, typer.Option(min=1, help="Runs of each setting.")] = 5,
    workers: Workers = None,
    backend: Backend = "processes",
    address: Address = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Study folder; default runs/NAME-sweep."),
    ] = None,
    sets: Sets = None,
    seed: Seed = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Play a grid, a Latin hypercube or a list of settings under the same callers."""
    from voicesim.report.sweep import sweep_command

    code = sweep_command(
        file, sets or (), seed, out, as_json, quiet, vary=vary or (), points=lhs,
        settings=settings, metrics=metric or ("clean_share",), variant=variant,
        replications=replications, workers=workers, backend=backend, address=address,
    )  # fmt: skip
    raise typer.Exit(code)


@app.command(rich_help_panel="Decide")
def tornado(
    file: ScenarioPath,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=LOW..HIGH",
            help="What else to move; profile.KEY of its profile; repeatable.",
            autocompletion=complete.varied,
        ),
    ] = None,
    assume: Annotated[
        str | None, typer.Option(metavar="SHARE", help="Move what has no interval by it; 20%.")
    ] = None,
    metric: Annotated[
        str, typer.Option(metavar="METRIC", help="What is moved.", autocompletion=complete.metrics)
    ] = "clean_share",
    variant: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Variant to study; default the first.",
            autocompletion=complete.variants,
        ),
    ] = None,
    replications: Annotated[int, typer.Option(min=2, help="Runs of the base and each end.")] = 10,
    workers: Workers = None,
    backend: Backend = "processes",
    address: Address = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Study folder; default runs/NAME-tornado."),
    ] = None,
    sets: Sets = None,
    seed: Seed = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find the input whose uncertainty moves a metric most, the calibration's included."""
    from voicesim.report.tornado import tornado_command

    code = tornado_command(
        file, sets or (), seed, out, as_json, quiet, assume, vary=vary or (), metric=metric,
        variant=variant, replications=replications, workers=workers, backend=backend,
        address=address,
    )  # fmt: skip
    raise typer.Exit(code)


@app.command(rich_help_panel="Decide")
def alarms(
    file: ScenarioPath,
    rules: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Rules (YAML), or shipped; default the scenario's."),
    ] = None,
    variant: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Repeatable; default all variants.",
            autocompletion=complete.variants,
        ),
    ] = None,
    replications: Annotated[int, typer.Option(min=1, help="Runs of each variant.")] = 10,
    scrape: Annotated[
        str, typer.Option(metavar="DURATION", help="Between scrapes; 0: every bin.")
    ] = "5s",
    evaluate: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Between evaluations; default --scrape.")
    ] = None,
    horizon: Annotated[
        str, typer.Option(metavar="DURATION", help="How far a stall may be from its alarm.")
    ] = "5min",
    workers: Workers = None,
    backend: Backend = "processes",
    address: Address = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Study folder; default runs/NAME-alarms."),
    ] = None,
    sets: Sets = None,
    seed: Seed = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Back-test alert rules on simulated peaks; write them for Prometheus, with their tests."""
    from voicesim.report.alarms import alarms_command

    code = alarms_command(
        file, rules, sets or (), seed, out, as_json, quiet, variants=variant or (),
        replications=replications, scrape=seconds_of("--scrape", scrape),
        evaluate=seconds_of("--evaluate", evaluate),
        horizon=seconds_of("--horizon", horizon), workers=workers, backend=backend, address=address,
    )  # fmt: skip
    raise typer.Exit(code)


@app.command(rich_help_panel="Decide")
def gate(
    baseline: Annotated[
        Path,
        typer.Option(
            metavar="WHAT",
            help="Finished folder, or scenario file, to hold up to.",
            autocompletion=complete.folders,
        ),
    ],
    scenario: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Candidate: a scenario, played now.",
            autocompletion=complete.scenarios,
        ),
    ] = None,
    candidate: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Candidate: a finished folder instead.",
            autocompletion=complete.folders,
        ),
    ] = None,
    variant: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Of the candidate; default its first.",
            autocompletion=complete.variants,
        ),
    ] = None,
    baseline_variant: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Of the baseline; default the same name."),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METRIC",
            help="Judge these instead of the usual; repeatable.",
            autocompletion=complete.metrics,
        ),
    ] = None,
    margin: Annotated[
        list[str] | None,
        typer.Option(metavar="METRIC=VALUE", help="Worsening that is allowed; ttfa_p99=20ms."),
    ] = None,
    quality: Annotated[
        Path | None, typer.Option(metavar="FILE", help="WER and MOS of model versions (YAML).")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="The candidate's model version in it.")
    ] = None,
    baseline_model: Annotated[
        str | None, typer.Option(metavar="NAME", help="The baseline's model version in it.")
    ] = None,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write JUnit XML, a test case per metric.")
    ] = None,
    replications: Annotated[
        int | None, typer.Option(min=1, help="Of what is played now; default as the baseline.")
    ] = None,
    workers: Workers = None,
    backend: Backend = "processes",
    address: Address = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Folder; default runs/NAME-gate."),
    ] = None,
    sets: Sets = None,
    seed: Seed = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fail (exit code 1) if a candidate is significantly worse than a baseline."""
    from voicesim.report.gate import gate_command

    code = gate_command(
        out, junit, as_json, quiet, baseline=baseline, scenario=scenario, candidate=candidate,
        variant=variant, baseline_variant=baseline_variant, metrics=metric or (),
        margins=margin or (), quality=quality, model=model, baseline_model=baseline_model,
        replications=replications, workers=workers, backend=backend, address=address,
        sets=sets or (), seed=seed,
    )  # fmt: skip
    raise typer.Exit(code)
