"""The sections of ``docs/performance.md`` about whole runs: the nested benchmark, and a study of 40,000 subjects."""

from collections.abc import Callable, Iterable
from typing import Any

PARTS = {"tune": "tuning", "fit": "fitting", "predict": "predicting", "explain": "explaining", "overhead": "overhead"}

Table = Callable[[list[str], Iterable[list[str]]], str]


def minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f} min" if seconds >= 60 else f"{seconds:.1f} s"


def nested_page(
    result: dict[str, Any], previous: dict[str, Any] | None, memory: dict[str, Any] | None, table: Table
) -> list[str]:
    """The nested run: the ratio to the earlier figures first, then what each part takes."""
    whole = {name: _scale(row, result["n_folds"]) for name, row in result["methods"].items()}
    before = {} if previous is None else previous["methods"]
    earlier = {name: _scale(row, previous["n_folds"]) for name, row in before.items()} if previous else {}
    both = [name for name in whole if name in earlier]
    measured = sorted({int(row["folds"]) for row in result["methods"].values()})
    folds = "all folds" if measured == [result["n_folds"]] else f"{' or '.join(map(str, measured))} folds"
    scaled = "" if measured == [result["n_folds"]] else ", and times are scaled up to all of them"
    rows = [
        [
            f"`{name}`",
            f"{sum(earlier[name].values()) / sum(parts.values()):.1f}x" if name in earlier else "-",
            minutes(sum(earlier[name].values())) if name in earlier else "-",
            minutes(sum(parts.values())),
            *(minutes(parts[part]) for part in PARTS),
            _mean_auc(result["methods"][name]),
            _mean_auc(before.get(name, {}), result["methods"][name]),
        ]
        for name, parts in whole.items()
    ]
    now, then = (sum(sum(of[name].values()) for name in both) for of in (whole, earlier)) if both else (0.0, 0.0)
    words = f" The methods measured in both take {then / now:.1f} times less than before." if both else ""
    release = ""
    if previous is not None:
        folds_before = sorted({int(row["folds"]) for row in before.values()})
        release = (
            f" *Before* is {previous['release']} with {previous['search']} search, of which "
            f"{' or '.join(map(str, folds_before))} of {previous['n_folds']} folds were run on one core beside other "
            "work, and scaled up (`--source ../before/src --search exhaustive`)."
        )
    together = result["peak_mb"]["shared_once"] / 1000
    largest = max(row["peak_memory"] for row in result["methods"].values()) / 1e9
    command = f"python benchmarks/nested.py {result['data']} --jobs {result['jobs']}"
    later = ""
    if memory is not None:
        n_folds = int(max(row["folds"] for row in memory["methods"].values()))
        later = (
            " This was before a search gave back the memory of each fit. Since then, the first "
            f"{n_folds} folds of each method hold {memory['peak_mb']['shared_once'] / 1000:.1f} GB (`{command} "
            f"--folds-only {n_folds}`)."
        )
    return [
        "## The nested benchmark\n",
        f"All jobs of `isocapsnet benchmark` on {result['data']} with the nested protocol, {result['n_folds']} folds, "
        f"{result['search']} search: `{command}`. Of each method {folds} were run{scaled}. The run took "
        f"{minutes(result['wall_seconds'])} with {result['jobs']} jobs at a time on {result['cores']} cores. All its "
        f"processes together held at most {together:.1f} GB, the largest {largest:.1f} GB.{later}\n",
        f"Times in the table are processor seconds on one thread, and the mean ROC AUC is that of the folds that were "
        f"run.{release}{words}\n",
        table(["method", "faster by", "before", "now", *PARTS.values(), "ROC AUC", "before, same folds"], rows),
    ]


def _mean_auc(row: dict[str, Any], other: dict[str, Any] | None = None) -> str:
    """The mean over the folds that were run; with ``other``, the means of both over the folds of both."""
    found, others = row.get("roc_auc", {}), None if other is None else other["roc_auc"]
    folds = [fold for fold in found if others is None or fold in others]
    if not folds:
        return "-"
    mean = f"{sum(found[fold] for fold in folds) / len(folds):.3f}"
    if others is None:
        return mean
    return f"{mean}, now {sum(others[fold] for fold in folds) / len(folds):.3f}"


def _scale(row: dict[str, float], n_folds: int) -> dict[str, float]:
    """Seconds of all folds, by those that were run."""
    return {part: row[part] * n_folds / row["folds"] for part in PARTS}


NO_NESTED = """## The nested benchmark

`make bench ISOCAPSNET_DATA=FOLDER` measures, among others, the processor time of each method in a nested benchmark.
There are no figures of this version on a CPU; the section GPU has those of Iso-CapsNet on ABIDE-NYU.
"""


def hours(value: float) -> str:
    return f"{value / 24:.0f} days" if value >= 100 else f"{value:.1f} h"


MEMORY = """## 40,000 subjects of 400 nodes

This study was not run. The figures come from measured unit costs, arithmetic, and a run of the real scheduler in
simulated time: `python benchmarks/scaling.py`.

### Memory

The graphs are 40,000 × 400² × 4 bytes = 25.6 GB in one file, which workers map. A job takes the graphs of its
training fold out of it, 26,667 or 17 GB, and for the prediction those of its test fold, 8.5 GB; a search takes
less. So a worker needs 26 GB and what its method needs (last column below), and workers on one machine share
nothing but the file. `linear` needs the 79,800 edges of 26,667 subjects in double precision, 17 GB more, and `wl` a
kernel matrix of 5.7 GB.

### Time of one job

One job is one fold of one method: the search by halving in inner folds, at most 14 fits, and the last fit.
Processor seconds per graph and epoch were measured on one thread with 64 graphs of 200 nodes. Windows, edges and
weights grow with the square of the nodes, so the figures for 400 nodes are four times as large; the power of the
nodes between 100 and 200 is a check, and above 2 where the weights leave the caches. Every fit is taken to need all
its epochs (`max_epochs`). A nested benchmark has 15 such jobs of each method. Other processes ran at the
same time, so the times are upper estimates. Methods that are not in the table were not measured.
"""

GPU = """All of them together are {total:,.0f} core hours. On an H200, by the times of match and routing at 400 nodes
(below) and the rest of a training step scaled by the square of the nodes, Iso-CapsNet needs {milliseconds:.2g} ms
per graph and epoch, and {hours} per job. For the other methods nothing was measured on a GPU at this size.

### A cluster

A plan with all methods of the table ran through the scheduler of the benchmark, with records on disk. Only the
workers were simulated. Job lengths are those of the table with a standard deviation of 25 %. A worker dies once in
200 hours and is back after six minutes; a job is given up after four deaths. One job in a hundred fails. The
command is started again until every record is there, at most 20 times. *Ideal* is all work divided by all workers.
"""

NOTES = """- The fold is the unit of work, so without permutations no more workers are busy than there are jobs, and the
  longest job decides. More repeats, permutations or methods use more workers; more workers do not shorten a job.
- Stored inner scores matter if a job takes about as long as a worker lives: a job whose worker dies continues after
  its last inner fit. The inner scores of permutations are not stored.
- At its end, a run waits for the few jobs whose workers died, or that failed and run again: with 1,575 jobs for 2,000
  workers, the run takes as long as the job that was interrupted most.
- The runner is one process. It checks and stores a record of 13,333 test subjects in {seconds:.2f} s
  ({megabytes:.1f} MB on disk) and needs {rest:.0f} ms per job for the rest, so it keeps up with about
  {per_hour:,.0f} jobs an hour.
"""


def large_page(result: dict[str, Any], table: Table) -> list[str]:
    """What 40,000 subjects of 400 nodes would need."""
    units, cluster = result["units"], result["cluster"]
    runner, gpu = units["runner"], units["gpu"]
    rest = max(row["runner_seconds"] for row in cluster)
    return [
        MEMORY,
        table(
            ["method", "200 nodes", "power of nodes", "400 nodes, per graph and epoch", "one job, one core", "memory"],
            (
                [
                    f"`{name}`",
                    f"{row['seconds_200'] * 1e3:.3g} ms",
                    f"{row['power']:.1f}",
                    f"{row['seconds'] * 1e3:.3g} ms",
                    hours(row["hours"]),
                    f"{row['gigabytes']:.1f} GB",
                ]
                for name, row in units["methods"].items()
            ),
        ),
        GPU.format(
            total=15 * sum(row["hours"] for row in units["methods"].values()),
            milliseconds=gpu["seconds"] * 1e3,
            hours=hours(gpu["hours"]),
        ),
        table(
            [
                "run",
                "workers",
                "permutations",
                "inner scores",
                "jobs",
                "starts",
                "unfinished",
                "time",
                "ideal",
                "deaths",
                "lost work",
            ],
            (
                [
                    row["what"],
                    f"{row['n_workers']:,}",
                    str(row["permutations"]),
                    "stored" if row["keeps_scores"] else "not stored",
                    f"{row['jobs']:,}",
                    str(row["runs"]),
                    str(row["unfinished"]),
                    hours(row["hours"]),
                    hours(row["ideal_hours"]),
                    f"{row['deaths']:,.0f}",
                    f"{row['lost'] / row['busy']:.0%}",
                ]
                for row in cluster
            ),
        ),
        NOTES.format(
            seconds=runner["seconds"],
            megabytes=runner["bytes"] / 1e6,
            rest=rest * 1e3,
            per_hour=3600 / (runner["seconds"] + rest),
        ),
    ]
