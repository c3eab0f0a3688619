"""Valid studies, written in ways that keep them readable or damage them; what they hold is known.

A case is made from a seed. :func:`outcome` reads it and says whether every label and every matrix is right, whether the
study was refused, or whether something is wrong.
"""

import csv
import io
import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from isocapsnet._validation import InputError
from isocapsnet.datasets.readers import load_graphs

DELIMITERS = [",", "\t", ";", " "]
NOTES = ["", "fine", 'said "no"', '"', 'a "quoted" word', "moved, twice", "left; came back", "n/a", "5' 2\"", "Müller"]


@dataclass
class Case:
    """A study and what was done to it."""

    rng: np.random.Generator
    kind: str
    numbers: list[int]
    labels: list[str]
    matrices: list[np.ndarray]
    node_names: list[str]
    steps: list[str] = field(default_factory=list)
    must_be_refused: bool = False
    options: dict = field(default_factory=dict)

    def maybe(self, share: float, step: str) -> bool:
        """Whether to take a step, which is noted."""
        if self.rng.random() < share:
            self.steps.append(step)
            return True
        return False

    def pick(self, choices, step: str = ""):
        """One of several, which is noted."""
        chosen = choices[self.rng.integers(len(choices))]
        if step:
            self.steps.append(f"{step} {chosen!r}")
        return chosen


def make_case(seed: int, folder: Path) -> Case:
    """Write a study under ``folder``."""
    rng = np.random.default_rng(seed)
    n_graphs, n_nodes = int(rng.integers(6, 11)), int(rng.integers(4, 8))
    kind = ("matrices", "edges", "series")[rng.choice(3, p=[0.5, 0.3, 0.2])]
    numbers = sorted(rng.choice(np.arange(1, 60), n_graphs, replace=False).tolist())
    classes = [("hc", "ad"), ("1", "2"), ("-1", "1"), ("Patient Group", "Control"), ("a", "b", "c")][rng.integers(5)]
    labels = [classes[i % len(classes)] for i in range(n_graphs)]
    case = Case(rng, kind, numbers, labels, _make_matrices(rng, kind, n_graphs, n_nodes), [])
    case.node_names = [f"R{code}" for code in rng.permutation(n_nodes) + 1]
    folder.mkdir(parents=True)
    stems = _write_table(case, folder)
    {"matrices": _write_matrices, "edges": _write_edges, "series": _write_series}[kind](case, folder, stems)
    return case


def _make_matrices(rng, kind, n_graphs, n_nodes):
    if kind == "series":
        return [rng.normal(size=(int(rng.integers(10, 16)), n_nodes)).round(4) for _ in range(n_graphs)]
    graphs = rng.normal(size=(n_graphs, n_nodes, n_nodes)).round(4)
    style = rng.integers(5)
    if style == 1:
        graphs = rng.poisson(3, graphs.shape).astype(float)
    elif style == 4:
        graphs = rng.poisson(2, graphs.shape) * rng.integers(1, 10, graphs.shape) * 1000.0 + rng.poisson(
            3, graphs.shape
        )
    elif style == 2:
        graphs = (rng.random(graphs.shape) < 0.5).astype(float)
    graphs[:, 0, 1] = 1 + np.arange(n_graphs)  # nobody is like anybody else
    graphs[:, n_nodes - 2, n_nodes - 1] = 1
    if style != 3:
        graphs = np.triu(graphs) + np.triu(graphs, 1).swapaxes(1, 2)
    return list(graphs)


# -- the table --------------------------------------------------------------------------------------------------


def _write_table(case: Case, folder: Path) -> list[str]:
    """Write participants.tsv or .csv; returns the files' names without extension."""
    rng = case.rng
    pad = case.pick([0, 2, 4], "pad")
    style = case.pick(["{}", "sub-{}", "sub-{}_ses-1_conn", "NYU_{}_rest", "scan{}"], "files")
    stems = [style.format(f"{number:0{case.pick([0, pad])}}") for number in case.numbers]
    ids = [f"{number:0{pad}}" for number in case.numbers]
    if case.maybe(0.1, "ids as floats"):
        ids = [f"{number}.0" for number in case.numbers]
    elif case.maybe(0.3, "ids with prefix"):
        ids = [f"sub-{one}" for one in ids]
    elif case.maybe(0.05, "rounded ids"):
        ids = [f"{number / 10:.1f}E+01" for number in case.numbers]
        case.must_be_refused = True
    columns = {
        case.pick(["participant_id", "participant_id", "subject", "ID", "code"], "id column"): ids,
        "dx": list(case.labels),
    }
    for name, values in {
        "age": rng.integers(1, 60, len(ids)).astype(str).tolist(),
        "order": [str(i) for i in range(len(ids))],
        "rank": rng.permutation(case.numbers).astype(str).tolist(),
        "site": ["NYU" if i % 2 else "UM 1" for i in range(len(ids))],
        "notes": [case.pick(NOTES) for _ in ids],
    }.items():
        if case.maybe(0.3, f"column {name}"):
            columns[name] = values
    names = list(columns)
    rows = [dict(zip(names, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    if case.maybe(0.4, "columns shuffled"):
        rng.shuffle(names)
    _alter_rows(case, names, rows)
    if case.maybe(0.6, "rows shuffled"):
        rng.shuffle(rows)
    _render_table(case, folder, names, [[row[name] for name in names] for row in rows])
    return stems


def _alter_rows(case: Case, names: list[str], rows: list[dict[str, str]]) -> None:
    """Rows that are missing, repeated or of nobody; a repeated one with another label is refused."""
    if case.maybe(0.1, "missing label"):
        place = int(case.rng.integers(len(rows)))
        rows[place]["dx"] = case.pick(["n/a", "", "NA"])
        case.labels[place] = ""
    if case.maybe(0.1, "missing row"):
        case.labels[-1] = ""
        del rows[-1]
    if case.maybe(0.1, "row of nobody"):
        rows.append(dict.fromkeys(names, "99") | {"dx": case.labels[0] or "hc"})
    if case.maybe(0.05, "repeated row"):
        rows.append(rows[0] | {"dx": case.pick(sorted({*case.labels} - {""}))})
        case.must_be_refused |= rows[-1]["dx"] != rows[0]["dx"]


def _render_table(case: Case, folder: Path, names: list[str], rows: list[list[str]]) -> None:
    delimiter = case.pick([",", ",", "\t", "\t", ";"], "table delimiter")
    if case.maybe(0.15, "index column"):
        names, rows = ["", *names], [[str(number), *row] for number, row in enumerate(rows)]
    table = [names, *rows]
    damaged = int(case.rng.integers(1, len(table)))
    if case.maybe(0.05, "a field more"):
        table[damaged] = [*table[damaged], "x"]
        case.must_be_refused = True
    elif case.maybe(0.05, "a field less"):
        table[damaged] = table[damaged][:-1]
        case.must_be_refused = True
    elif case.maybe(0.04, "a field more in every row"):
        table = [names, *(["x", *row] for row in rows)]
        case.must_be_refused = True
    elif case.maybe(0.04, "two columns of a name"):
        table = [[*names, " dx"], *([*row, case.labels[0]] for row in rows)]
        case.must_be_refused = True
    quoting = case.pick([csv.QUOTE_MINIMAL, csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONE], "quoting")
    if quoting == csv.QUOTE_NONE:
        lines = [delimiter.join(row) for row in table]
    else:
        text = io.StringIO()
        csv.writer(text, delimiter=delimiter, quoting=quoting, lineterminator="\n").writerows(table)
        lines = text.getvalue().splitlines()
    if case.maybe(0.1, "delimiter at every end"):
        lines = [line + delimiter for line in lines]
    if case.maybe(0.04, "other delimiter in the header"):
        lines[0] = lines[0].replace(delimiter, ";" if delimiter == "," else ",")
    name = "participants.tsv" if delimiter == "\t" else "participants.csv"
    (folder / name).write_bytes(_encode(case, lines))


def _encode(case: Case, lines: list[str]) -> bytes:
    """Lines as bytes, as one or another system writes them."""
    if case.maybe(0.1, "blank lines"):
        lines = [*lines[:1], "", *lines[1:], "", "  "]
    end = case.pick(["\n", "\n", "\r\n", "\r"], "line end")
    text = end.join(lines) + (end if case.rng.random() < 0.7 else "")
    encoding = case.pick(["utf-8", "utf-8", "utf-8-sig", "utf-16", "cp1252"], "encoding")
    return text.encode(encoding)


# -- the files --------------------------------------------------------------------------------------------------


def _number(case: Case, style: str, value: float) -> str:
    if style == "thousands":
        return f"{value:,.0f}" if value % 1 == 0 else repr(float(value))
    return {"repr": repr(float(value)), "%.17e": f"{value:.17e}", "%g": f"{value:.12g}"}[style]


def _cells(case: Case, matrix: np.ndarray, style: str) -> list[list[str]]:
    return [[_number(case, style, value) for value in row] for row in matrix]


def _render(
    case: Case, folder: Path, stem: str, rows: list[list[str]], delimiter: str, decimal: str, quoted: bool
) -> None:
    rows = [[cell.replace(".", decimal) if re.fullmatch(r"[-+0-9.e]+", cell) else cell for cell in row] for row in rows]
    if quoted:
        rows = [[f'"{cell}"' for cell in row] for row in rows]
    lines = [delimiter.join(row) for row in rows]
    (folder / f"{stem}.txt").write_bytes(_encode(case, lines))


def _dialect(case: Case) -> dict:
    delimiter = case.pick(DELIMITERS, "delimiter")
    decimal = "," if case.maybe(0.25, "decimal commas") else "."
    return {"delimiter": delimiter, "decimal": decimal, "quoted": case.maybe(0.1, "quoted cells")}


def _damage(case: Case, rows: list[list[str]], *kinds: str) -> list[list[str]]:
    place = int(case.rng.integers(len(rows)))
    row = list(rows[place])
    what = case.pick(["a cell less", "a cell more", "a text", *kinds], "damage")
    if what == "a cell less":
        del row[-1]
    elif what == "a cell more":
        row.append("1.5")
    elif what == "a text":
        row[int(case.rng.integers(len(row)))] = "oops"
    else:
        return rows[1:]
    return [*rows[:place], row, *rows[place + 1 :]]


def _frame(case: Case, rows: list[list[str]], names: list[str], header: str, index: str) -> list[list[str]]:
    """Add a header row and an index column."""
    titles = {
        "names": names,
        "from 0": [str(i) for i in range(len(names))],
        "from 1": [str(i + 1) for i in range(len(names))],
        "codes": [str(2001 + 10 * i) for i in range(len(names))],
    }
    if index != "none":
        marks = {
            "names": names,
            "from 0": list(map(str, range(len(rows)))),
            "from 1": [str(i + 1) for i in range(len(rows))],
        }
        rows = [[mark, *row] for mark, row in zip(marks[index], rows, strict=True)]
    if header != "none":
        corner = [] if index == "none" else case.pick([[""], ["Node"], []], "corner")
        rows = [[*corner, *titles[header]], *rows]
    return rows


def _write_matrices(case: Case, folder: Path, stems: list[str]) -> None:
    header = case.pick(["none", "none", "names", "from 0", "from 1", "codes"], "header")
    index = case.pick(["none", "none", "names", "from 0", "from 1"], "index")
    dialect, style = _dialect(case), case.pick(["repr", "%.17e", "%g", "%g", "thousands"], "numbers")
    mixes = header == index == "names" and case.maybe(0.3, "nodes in another order in each file")
    is_undirected = all(np.array_equal(one, one.T) for one in case.matrices)
    triangles = is_undirected and case.maybe(0.1, "upper triangles")
    damaged = int(case.rng.integers(len(stems))) if case.maybe(0.1, "damaged file") else -1
    for place, (stem, matrix) in enumerate(zip(stems, case.matrices, strict=True)):
        order = case.rng.permutation(len(matrix)) if mixes else np.arange(len(matrix))
        written = matrix[np.ix_(order, order)]
        written = np.triu(written) if triangles else written
        names = [case.node_names[i] for i in order]
        rows = _frame(case, _cells(case, written, style), names, header, index)
        rows = _damage(case, rows, "no first line") if place == damaged else rows
        _render(case, folder, stem, rows, **dialect)


def _write_series(case: Case, folder: Path, stems: list[str]) -> None:
    header = case.pick(["none", "names", "from 0", "from 1", "codes"], "header")
    index = case.pick(["none", "none", "from 0", "from 1"], "index")
    dialect, style = _dialect(case), case.pick(["repr", "%.17e", "%g"], "numbers")
    suffix = "_timeseries" if case.maybe(0.3, "called time series") else ""
    damaged = int(case.rng.integers(len(stems))) if case.maybe(0.1, "damaged file") else -1
    for place, (stem, matrix) in enumerate(zip(stems, case.matrices, strict=True)):
        rows = _frame(case, _cells(case, matrix, style), case.node_names, header, index)
        if place == damaged:
            rows = _damage(case, rows)
            case.must_be_refused = True
        _render(case, folder, stem + suffix, rows, **dialect)


def _write_edges(case: Case, folder: Path, stems: list[str]) -> None:
    base, named = case.pick([0, 1], "base"), case.maybe(0.2, "named nodes")
    dialect, style = _dialect(case), case.pick(["repr", "%.17e", "%g"], "numbers")
    is_undirected = all(np.array_equal(one, one.T) for one in case.matrices)
    form = case.pick(["once", "once", "reversed", "both", "some reversed"] if is_undirected else ["both"], "listed")
    titles = case.pick([[], [], ["source", "target", "weight"], ["from", "to", "w"], ["a", "b", "c"]], "titles")
    floats, counts = case.maybe(0.1, "float nodes"), case.maybe(0.1, "index column")
    repeats, conflicts = case.maybe(0.1, "repeated edges"), case.maybe(0.05, "conflicting weights")
    if case.maybe(0.3, "n_nodes"):
        case.options["n_nodes"] = len(case.node_names)
    names = (
        case.node_names
        if named
        else [f"{base + i:.6e}" if floats else str(base + i) for i in range(len(case.node_names))]
    )
    for place, (stem, matrix) in enumerate(zip(stems, case.matrices, strict=True)):
        pairs = np.argwhere(matrix if form == "both" else np.triu(matrix))
        if form == "reversed":
            pairs = pairs[:, ::-1]
        elif form == "some reversed":
            turned = case.rng.random(len(pairs)) < 0.5
            pairs[turned] = pairs[turned, ::-1]
        case.rng.shuffle(pairs)
        rows = [[names[i], names[j], _number(case, style, matrix[i, j])] for i, j in pairs]
        rows += rows[:2] if repeats else []
        if conflicts and place == 0:
            rows.append([*rows[0][:2], "77.5"])
            case.must_be_refused = True
        if counts:
            rows = [[str(number), *row] for number, row in enumerate(rows)]
        rows = [["", *titles] if counts else titles, *rows] if titles else rows
        _render(case, folder, stem, rows, **dialect)


# -- what came of it --------------------------------------------------------------------------------------------


def outcome(case: Case, folder: Path) -> tuple[str, str]:
    """ "right", "refused" or "wrong", and why."""
    try:
        data = load_graphs(folder, target="dx", **case.options)
    except InputError as error:
        return "refused", str(error)
    if case.must_be_refused:
        return "wrong", "was not refused"
    found = {int(re.findall(r"\d+", subject.replace("_ses-1", ""))[0]): i for i, subject in enumerate(data.subjects)}
    if sorted(found) != case.numbers:
        return "wrong", f"subjects {sorted(found)} instead of {case.numbers}"
    if (data.time_series is not None) != (case.kind == "series"):
        return "wrong", f"{case.kind} read as {data!r}"
    for number, label, matrix in zip(case.numbers, case.labels, case.matrices, strict=True):
        place = found[number]
        code = data.labels[place]
        if ("" if code < 0 else data.label_names[code]) != label:
            return "wrong", f"subject {number} has another label than {label!r}"
        read = data.adjacency[place] if data.time_series is None else data.time_series[place]
        if not np.array_equal(read, _in_order(case, data, matrix)):
            return "wrong", f"subject {number} has another matrix"
    return "right", ""


def _in_order(case: Case, data, matrix: np.ndarray) -> np.ndarray:
    """The true matrix in the order of the nodes that were read, where they have the study's names."""
    names = [] if data.atlas is None else list(data.atlas.node_names)
    if sorted(names) != sorted(case.node_names):
        return matrix
    order = [case.node_names.index(name) for name in names]
    return matrix[:, order] if case.kind == "series" else matrix[np.ix_(order, order)]
