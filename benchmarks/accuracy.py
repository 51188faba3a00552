"""How near the simulator comes to published ladders: fits, predicts what it has not seen, writes.

    python benchmarks/accuracy.py [--json FILE] [--profiles | --shipped] [--workers N] [NAME ...]

Recomputes every ladder of calibration/measured/ladders (or those named), prints a table, and
writes docs/concepts/accuracy.md (all ladders only).  --profiles also writes calibration/profiles;
--shipped fits nothing and takes them as they are (seconds instead of minutes).  Exit code 1 if a
shipped profile is not what its figures give.
"""

import argparse
import sys
from pathlib import Path

from joblib import Parallel, delayed

from voicesim.engine.profile import Profile, dump_profile, load_profile
from voicesim.experiment.accuracy import (
    as_json,
    calibrate_ladder,
    dropped,
    page,
    rows,
    summary,
)
from voicesim.experiment.published import read_ladder
from voicesim.files import write_whole

HOME = Path(__file__).resolve().parents[1]
MEASURED = HOME / "calibration" / "measured"
PROFILES = HOME / "calibration" / "profiles"
PAGE = HOME / "docs" / "concepts" / "accuracy.md"


def one(file: Path, shipped: bool) -> tuple[str, Profile]:
    if shipped:
        return file.stem, load_profile(PROFILES / f"{file.stem}.yaml")
    return file.stem, calibrate_ladder(read_ladder(file))


def main() -> int:
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("names", nargs="*", metavar="NAME", help="ladders; default all")
    ask.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers here")
    ask.add_argument("--profiles", action="store_true", help="also write calibration/profiles")
    ask.add_argument("--shipped", action="store_true", help="fit nothing: profiles as they ship")
    ask.add_argument("--workers", type=int, default=1, help="processes")
    asked = ask.parse_args()
    files = sorted((MEASURED / "ladders").glob("*.csv"), key=lambda file: file.stem)
    wanted = [f for f in files if not asked.names or f.stem in asked.names]
    unknown = set(asked.names) - {f.stem for f in wanted}
    if unknown:
        print(f"no such ladder: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    found, same = [], True
    with Parallel(asked.workers, return_as="generator") as pool:
        for n, (name, profile) in enumerate(
            pool(delayed(one)(f, asked.shipped) for f in wanted), 1
        ):
            print(f"{n}/{len(wanted)} {name}", file=sys.stderr)
            found += rows(read_ladder(MEASURED / "ladders" / f"{name}.csv"), profile)
            target, text = PROFILES / f"{name}.yaml", dump_profile(profile).encode()
            if asked.profiles:
                write_whole(target, text)
            elif not target.is_file() or target.read_bytes() != text:
                same = False
                print(f"{target.name} is not what its figures give: --profiles", file=sys.stderr)
    print(table(found))
    if asked.json:
        write_whole(asked.json, as_json(found).encode())
    if len(wanted) == len(files):
        left_out = dropped(MEASURED / "ladders_not_taken.csv")
        write_whole(PAGE, page(found, left_out).encode())
        print(f"wrote {PAGE.relative_to(HOME)}")
    return 0 if same else 1


def table(found: list[dict]) -> str:
    lines = [
        f"{'ladder':38s} {'load':>5s}  {'figure':20s} {'published':>9s} {'predicted':>9s} error"
    ]
    for r in found:
        mark = "held out" if r["held_out"] else ""
        figure = f"{r['run'] + ', ' if r['run'] else ''}{r['published_as']}"
        lines.append(
            f"{r['ladder']:38s} {r['load']:5g}  {figure:20s} {r['measured']:9.4g} "
            f"{r['predicted']:9.4g} {r['error']:+6.1%} {mark}".rstrip()
        )
    for s in summary(found):
        lines.append(
            f"held out, {s['kind']}: {s['figures']} figures, median {s['median']:.1%}, "
            f"{s['within_fifth']:.0%} within 20 %, worst {s['worst']:.0%}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
