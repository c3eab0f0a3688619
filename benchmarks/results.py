"""Every table of docs/results.md and docs/published.md in one go: run what has to be run, and write what has changed.

::

    make results
    python benchmarks/results.py --only hiv_dti,hiv_dti_kernel_size
    python benchmarks/results.py --results FOLDER --jobs 16 --run-only
    python benchmarks/results.py --write                 # all sections again, from the results folders

Each section of the pages has a version: of its command, the data, and the code of its methods. A section with the
present version is left as it is, and nothing is run for it. An interrupted run continues where it was. The sections of
datasets that are not at hand are left as they are. Datasets are looked up by name in the folder ISOCAPSNET_DATA and
among those that `isocapsnet data fetch` has downloaded.

A results folder notes which machine computed what (`machines.json`), and the section names these machines.
"""

import argparse
import json
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import isocapsnet
import paper_tables
import published
from calibration_ridge import tests_digest
from isocapsnet import InputError
from isocapsnet._files import write_whole
from isocapsnet._methods import list_methods
from isocapsnet._reporting import read_content
from isocapsnet.datasets.catalog import CATALOG, dataset_folder, local_file
from isocapsnet.evaluation.naming import digest_of
from isocapsnet.models import MODELS
from isocapsnet.report.content import Content

_HERE = Path(__file__).parent
_CONTIGUOUS = "isocapsnet[windows=contiguous"
_MACHINES = "machines.json"

#: Table 1 of the paper, the released program, and the two answers that every figure has to be read against.
TABLE_1 = (
    *("isocapsnet", "isocapsnet[reconstruction_weight=0]", "isocapsnet-released"),
    *("isonn", "fastisonn", "capsnet", "cnn", "sdbn", "dgcnn", "autoencoder", "gcn", "gin", "diffpool", "wl", "freq"),
    *("constant", "linear"),
)
#: The methods as their papers describe them, and each reading of the Iso-CapsNet paper by itself.
READINGS = (
    *(f"{name}[preset=paper]" for name in ("isonn", "fastisonn", "sdbn", "dgcnn", "gin", "diffpool", "wl")),
    *(f"{_CONTIGUOUS}]", f"{_CONTIGUOUS},routing_over=windows]", f"{_CONTIGUOUS},residual_per_class=True]"),
    f"{_CONTIGUOUS},matching=spectral,projection=orthogonal]",
    *("constant", "linear"),
)
#: Every method, after the preparation that its inner search chooses. The released program takes hours to search.
PREPARED = tuple(name for name in MODELS if name != "isocapsnet-released")
#: What ``isocapsnet.benchmark`` is given beside methods and data.
PAPER: dict[str, Any] = {"protocol": "paper"}
NESTED: dict[str, Any] = {
    "protocol": "nested",
    "repeats": 1,
    "choose_transform": ("fisher-z", "tangent"),
    "explain": False,
}
#: Table 2 of the paper.
SIZES = "kernel_size=1,2,3,4,5"


class Run(NamedTuple):
    """One section: a benchmark of ``methods``, a sweep of one method, or rows that a script prints for each fold."""

    name: str
    data: str
    title: str
    methods: tuple[str, ...]
    param: str = ""
    script: str = ""
    options: dict[str, Any] = PAPER

    def command(self) -> str:
        """What a user would type."""
        out = f"isocapsnet-results/{self.name}"
        if self.script:
            return f"python {self.script} {self.data}"
        if self.param:
            words = ["isocapsnet", "sweep", self.data, "--method", self.methods[0], "--param", self.param]
            return shlex.join([*words, *_flags(self.options), "--out", out])
        words = ["isocapsnet", "benchmark", self.data, *_flags(self.options), "--methods", ",".join(self.methods)]
        return shlex.join([*words, "--out", out])


def _flags(options: dict[str, Any]) -> list[str]:
    """Options of the command line."""
    words: list[str] = []
    for name, value in options.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            words += [f"--{flag}", ",".join(value) if isinstance(value, tuple) else str(value)]
    return words


def _of_dataset(data: str, title: str, *, readings: bool = False, sizes: bool = False) -> list[Run]:
    name = data.replace("-", "_")
    runs = [Run(name, data, f"{title}: all methods", TABLE_1)]
    if sizes:
        runs.append(Run(f"{name}_kernel_size", data, f"{title}: the size of the template", ("isocapsnet",), SIZES))
    if readings:
        released = f"{title}: the size of the template, released program"
        runs += [
            Run(f"{name}_readings", data, f"{title}: to the letter of the papers", READINGS),
            Run(f"{name}_released_kernel_size", data, released, ("isocapsnet-released",), SIZES),
        ]
    return runs


#: The sections, in the order in which they are run.
RUNS: tuple[Run, ...] = (
    *_of_dataset("hiv-fmri-34", "HIV-fMRI, 34 subjects", readings=True, sizes=True),
    *_of_dataset("hiv-dti", "HIV-DTI", readings=True, sizes=True),
    Run(
        "hiv_dti_program",
        "hiv-dti",
        "HIV-DTI: the released variant and the program as it is described",
        ("isocapsnet-released",),
        script="benchmarks/released.py",
    ),
    *_of_dataset("peking-1", "ADHD-200, Peking site, binary graphs", sizes=True),
    *_of_dataset("abide-nyu", "ABIDE, NYU site (development set)"),
    Run(
        "abide_nyu_prepared",
        "abide-nyu",
        "ABIDE, NYU site (development set): nested, preparation chosen",
        PREPARED,
        options=NESTED,
    ),
    *_of_dataset("hiv-fmri", "HIV-fMRI, the paper's 67 subjects", readings=True, sizes=True),
    *_of_dataset("bp-fmri", "BP-fMRI, the paper's 97 subjects"),
    *_of_dataset("adhd-fmri", "ADHD-fMRI, the paper's 768 subjects"),
)


def open_data(name: str) -> Any:
    """The dataset, or None if it is not at hand; nothing is downloaded."""
    path, folder = local_file(name), dataset_folder(name)
    is_fetched = all((folder / file.path).exists() for file in CATALOG[name].files) and folder.exists()
    return isocapsnet.load_graphs(name) if is_fetched or (path is not None and path.exists()) else None


def version_of(run: Run, data: Any) -> str:
    """Changes with the command, the data, the code of the methods and that of the tests."""
    methods = [(method.label, method.version) for method in list_methods(list(run.methods))]
    script = (_HERE.parent / run.script).read_text() if run.script else ""
    return digest_of([run.command(), data.digest(), methods, script, tests_digest()])[:16]


def written_version(text: str, name: str) -> str | None:
    """The version of a section in a page; None without the section."""
    match = re.search(f"<!-- begin {re.escape(name)} -->\n<!-- version (\\w+) -->", text)
    return match[1] if match else None


def describe_machine(run: Run, jobs: int | None) -> str:
    """What decides how the scores of a run are rounded: processor, vector instructions, GPU, threads, torch."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = (models or [platform.processor() or platform.machine()])[0]
    machine = f"{name} ({torch.backends.cpu.get_cpu_capability()})"
    if torch.cuda.is_available() and not run.script:
        machine += f" and {torch.cuda.get_device_name()} for networks"
    threads = torch.get_num_threads() if jobs == 0 and not run.script else 1
    return f"{machine}, {threads} thread{'s' * (threads != 1)} per job, torch {torch.__version__}"


@contextmanager
def noting_machine(folder: Path, machine: str) -> Iterator[None]:
    """Note in the folder that the records and rows that are written inside come from this machine."""
    before = _find_outputs(folder)
    try:
        yield
    finally:
        written = [name for name, time in _find_outputs(folder).items() if before.get(name) != time]
        if written:
            notes = _read_machines(folder) | dict.fromkeys(written, machine)
            write_whole(folder / _MACHINES, json.dumps(notes, indent=1, sort_keys=True).encode())


def _find_outputs(folder: Path) -> dict[str, int]:
    """When each record, or each table of a script, was written."""
    paths = [*folder.glob("records/*/*.json"), *folder.glob("*/*.md")]
    return {path.relative_to(folder).as_posix(): path.stat().st_mtime_ns for path in paths}


def _read_machines(folder: Path) -> dict[str, str]:
    """The machine of each record or table of a script; empty for folders that were written without notes."""
    path = folder / _MACHINES
    machines: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    return machines


def measured_on(run: Run, folder: Path, version: str) -> str:
    """The machines that computed a section; empty if none is noted."""
    if run.script:
        names = [rows.relative_to(folder).as_posix() for rows in sorted((folder / version).glob("*.md"))]
    else:
        methods = json.loads((folder / "results.json").read_text())["methods"]
        keys = [fold["key"] for method in methods for fold in method["folds"]]
        names = [f"records/{key[:2]}/{key}.json" for key in keys]
    notes = _read_machines(folder)
    machines = list(dict.fromkeys(notes[name] for name in names if name in notes))
    missing = sum(name not in notes for name in names)
    if machines and missing:
        machines.append(f"{missing} of {len(names)} jobs on a machine without a note")
    return f"Measured on: {'; '.join(machines)}." if machines else ""


def carry_out(run: Run, data: Any, folder: Path, version: str, jobs: int | None) -> None:
    """Run what is not finished in ``folder``."""
    options: dict[str, Any] = {**run.options, "out": folder, "jobs": jobs, "command": run.command()}
    if run.script:
        for fold in range(1, len(data.folds) + 1):
            rows = folder / version / f"{fold}.md"
            if not rows.exists():
                words = [sys.executable, run.script, run.data, "--folds", str(fold)]
                output = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
                write_whole(rows, output.stdout.encode())
    elif run.param:
        isocapsnet.sweep(data, run.methods[0], run.param, **options)
    else:
        isocapsnet.benchmark(data, list(run.methods), save_models=False, **options)


def is_finished(run: Run, folder: Path, version: str) -> bool:
    """Whether the folder has what its section needs."""
    return (folder / (f"{version}/1.md" if run.script else "sweep.csv" if run.param else "results.json")).exists()


def write_section(run: Run, folder: Path, text: str, version: str, images: Path) -> str:
    """The page with the section of this run."""
    if run.script:
        parts = [rows.read_text().splitlines() for rows in sorted((folder / version).glob("*.md"))]
        table = [*parts[0][:2], *(line for part in parts for line in part[2:])]
        section = "\n".join(["", f"```\n{run.command()}\n```", "", *table])
    else:
        section = paper_tables.section_of(folder).split("\n", 1)[1]  # without its own title
        if run.param:
            content = read_content(folder)
            section += reconstructions(content) + figures_of(run, images, has_brain=content.coordinates is not None)
    if machine := measured_on(run, folder, version):
        section = section.replace("\n```\n\n", f"\n```\n\n{machine}\n\n", 1)  # below the command
    return paper_tables.put_section(text, run.name, f"<!-- version {version} -->\n## {run.title}\n{section}")


def reconstructions(content: Content) -> str:
    """Figure 3 in figures: how alike reconstructions are to their own graphs, to other graphs and to each other."""
    header = ["reconstructions of", "test graphs", "with its own graph", "with other graphs", "with each other"]
    lines = [paper_tables.table_row([*header, "mean of the other graphs with the graph"])]
    lines.append(paper_tables.table_row(["---"] * 6))
    for method in content.methods:
        graphs = None if method.explanation is None else method.explanation.reconstructions
        if graphs is None or len(graphs.labels) < 2:
            continue
        edges = np.triu_indices(graphs.inputs.shape[1], k=1)
        inputs, outputs = graphs.inputs[:, *edges], graphs.outputs[:, *edges]
        others = (inputs.sum(axis=0) - inputs) / (len(inputs) - 1)
        with np.errstate(invalid="ignore", divide="ignore"):
            between = np.corrcoef(outputs)[np.triu_indices(len(outputs), k=1)].mean()
            means = np.mean([np.corrcoef(*pair)[0, 1] for pair in zip(inputs, others, strict=True)])
        figures = [paper_tables.number(value) for value in (*graphs.similarity(), between, means)]
        lines.append(paper_tables.table_row([f"`{method.label}`", str(len(inputs)), *figures]))
    explanation = "Mean correlations over edges, of graphs that the fit was not trained on (Figure 3 of the paper):"
    return "\n".join(["", "", explanation, "", *lines]) if len(lines) > 2 else ""


#: The figures of a sweep in its section: the end of the file's name, and what it shows.
FIGURES = {
    "kernel-size": "Accuracy, weighted F1 and ROC AUC for each k, beside chance and the constant answer",
    "reconstruction": "Strongest edges, matrix and reconstructed matrix of one test subject of each class",
}
#: The same for datasets whose nodes have no positions.
FIGURES_WITHOUT_BRAIN = FIGURES | {
    "reconstruction": "Matrix and reconstructed matrix of one test subject of each class"
}
#: What is said below the figures of a section.
REMARKS = {
    "peking_1_kernel_size": (
        "No brain is drawn here, because the positions of the nodes are not known. The graphs have 190 nodes and the "
        "atlas, CC200, has 200 regions. The data do not say which regions were left out."
    ),
    "hiv_dti_released_kernel_size": (
        "The two reconstructed matrices are blank because of the program's decoder, not because of the drawing. The "
        "decoder ends in a sigmoid, so no value is above 1. The program does not scale its graphs, and their counts "
        "reach more than 100,000, as the colour bar shows."
    ),
}


def draw(run: Run, folder: Path, images: Path) -> None:
    """Table 2 as a plot and, for methods with a decoder, Figure 3, from the results of a sweep."""
    figures = folder / "figures"
    isocapsnet.open_results(folder).report(folder / "report.html", figures=figures)
    sources = dict(zip(FIGURES, ("sweep-kernel-size", f"{run.methods[0]}-kernel-size-4-reconstruction"), strict=True))
    images.mkdir(parents=True, exist_ok=True)
    for name, source in sources.items():
        if (figures / f"{source}.png").exists():
            shutil.copyfile(figures / f"{source}.png", images / image_name(run, name))


def image_name(run: Run, figure: str) -> str:
    """The file of a figure of a sweep."""
    return f"{run.name.removesuffix('_kernel_size').replace('_', '-')}-{figure}.png"


def figures_of(run: Run, images: Path, *, has_brain: bool) -> str:
    """The figures of a sweep as Markdown, and what has to be said about them."""
    titles = FIGURES if has_brain else FIGURES_WITHOUT_BRAIN
    names = {image_name(run, figure): title for figure, title in titles.items()}
    drawn = [f"![{title}](images/{name})" for name, title in names.items() if (images / name).exists()]
    if drawn and run.name in REMARKS:
        drawn.append(paper_tables.paragraph(REMARKS[run.name]))
    return "".join(f"\n\n{part}" for part in drawn)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="names of sections, separated by commas")
    parser.add_argument("--results", type=Path, default=Path("isocapsnet-results"), help="folder of results folders")
    parser.add_argument("--pages", type=Path, default=Path("docs"), help="folder of results.md, published.md, images")
    parser.add_argument("--jobs", type=int, help="worker processes (default: number of cores)")
    parser.add_argument("--run-only", action="store_true", help="run, but write no page")
    parser.add_argument("--write", action="store_true", help="run nothing; write all sections that have results")
    parser.add_argument("--list", action="store_true", help="print the sections and their commands")
    options = parser.parse_args(arguments)
    runs = select(options.only)
    if options.list:
        print(*(f"{run.name}\n    {run.command()}" for run in runs), sep="\n")
        return
    page = options.pages / "results.md"
    absent = []
    for run in runs:
        data = open_data(run.data)
        if data is None:
            absent.append(run.data)
            continue
        text = page.read_text() if page.exists() else "# Results\n"
        version, folder = version_of(run, data), options.results / run.name
        if not options.write and written_version(text, run.name) == version:
            print(f"{run.name}: unchanged")
            continue
        if not options.write:
            print(f"{run.name}: {run.command()}", flush=True)
            with noting_machine(folder, describe_machine(run, options.jobs)):
                carry_out(run, data, folder, version, options.jobs)
        if options.run_only or not is_finished(run, folder, version):
            continue
        options.pages.mkdir(parents=True, exist_ok=True)
        text = page.read_text() if page.exists() else text  # a run takes long, and the page may have changed
        if run.param:
            draw(run, folder, options.pages / "images")
        page.write_text(write_section(run, folder, text, version, options.pages / "images"))
        published.write(options.pages / "published.md", run.name, folder)
        print(f"{run.name}: written")
    for name in dict.fromkeys(absent):
        print(f"{name} is not at hand; its sections are left as they are")


def select(only: str | None) -> list[Run]:
    """The runs with these names, or all."""
    names = [run.name for run in RUNS] if only is None else only.split(",")
    if missing := set(names) - {run.name for run in RUNS}:
        raise InputError(
            f"There is no section {sorted(missing)[0]}; choose from {', '.join(run.name for run in RUNS)}."
        )
    return [run for run in RUNS if run.name in names]


if __name__ == "__main__":
    main()
