"""The results of a benchmark: as tables, in a notebook, as figures and as a report."""

import html
import reprlib
import warnings
from collections import Counter
from collections.abc import Sequence
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from isocapsnet._files import DamagedError
from isocapsnet._format import interval
from isocapsnet._plots import Plots
from isocapsnet._stages import enter_stage
from isocapsnet._validation import InputError
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.evaluation.artifacts import read_templates
from isocapsnet.evaluation.omissions import describe_omissions
from isocapsnet.evaluation.output import results_frame, site_summary_frame, sites_frame
from isocapsnet.evaluation.preparation import NO_TRANSFORM, TRANSFORM
from isocapsnet.evaluation.results import MethodResult, ResultsTable
from isocapsnet.evaluation.store import Store


class Results:
    """The results of all methods on one dataset under one protocol.

    :func:`isocapsnet.benchmark` returns them and :func:`isocapsnet.open_results` reads them from a folder.

    Parameters
    ----------
    summary : ResultsTable
        Metrics, tests and verdicts of each method as typed objects.
    context : dict
        Where the numbers come from: ``passport`` of the data, ``protocol``, ``preparation``, ``command``, ``data``,
        and ``sweep`` if one parameter was varied.
    folders : sequence of Path
        The results folders that hold the records.
    data : BrainGraphs, optional
        The data, from which predictions take the names of subjects.
    notes : sequence of str
        What is missing or damaged in the folders.
    records : dict, optional
        The records of all test folds by key; read from the folders by default.

    Examples
    --------
    >>> import isocapsnet
    >>> results = isocapsnet.open_results("results")
    >>> results.table[["method", "roc_auc", "verdict"]]
    >>> results.plot.comparison().savefig("auc.png")
    >>> results.report("report.html")
    """

    def __init__(
        self,
        summary: ResultsTable,
        context: dict[str, Any],
        folders: Sequence[Path] = (),
        data: BrainGraphs | None = None,
        notes: Sequence[str] = (),
        records: dict[str, dict[str, Any]] | None = None,
    ) -> None:
        self.summary, self.context, self.folders = summary, context, tuple(folders)
        self.data, self.notes = data, list(notes)
        self._records = records

    def __repr__(self) -> str:
        methods = "; ".join(f"{row.method}: {row.verdict}" for row in self.best_first)
        return f"Results({self.title}; {methods or 'no methods'})"

    @property
    def title(self) -> str:
        """The dataset, the protocol and the preparation."""
        passport, protocol = self.context.get("passport") or {}, self.context.get("protocol") or {}
        steps = [step["name"] for step in self.context.get("preparation") or ()]
        return f"{passport.get('name') or 'unnamed'}: {', '.join([protocol.get('name', ''), *steps])}"

    @property
    def best_first(self) -> list[MethodResult]:
        """The rows of the summary by ROC AUC, undefined ones last."""
        return sorted(self.summary.rows, key=lambda row: -np.nan_to_num(row.metrics["roc_auc"].mean, nan=-1.0))

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per method.

        Each metric has its mean over folds and the bounds of its 95 % interval (``roc_auc``, ``roc_auc_low``,
        ``roc_auc_high``). ``p_chance`` is the p-value of ROC AUC > 0.5, Holm-adjusted over the methods.
        """
        frame = results_frame(self.summary)
        rows = self.summary.rows
        frame.insert(max(len(frame.columns) - 1, 0), "p_chance", [row.p_chance for row in rows])
        frame.insert(len(frame.columns) - 1, "is_best", [row.is_best for row in rows])
        return frame

    @cached_property
    def sites(self) -> pd.DataFrame | None:
        """One row per site and method of a leave-site-out evaluation; None if folds are not sites.

        Columns: ``site``, ``n_subjects``, the test graphs of each
        class as ``n_<class>``, ``method``, and ``roc_auc`` with the bounds of its 95 % interval.
        """
        if self.summary.site_results is None:
            return None
        return sites_frame(self.summary.site_results, next(iter(self.records.values()))["classes"])

    @cached_property
    def site_summary(self) -> pd.DataFrame | None:
        """One row per method: the random-effects summary over sites; None if folds are not sites.

        Columns: ``roc_auc``, the mean over sites, with the bounds of its 95 % interval; the ``deviation`` of sites (τ),
        ``i_squared``, ``p_heterogeneity`` and the heterogeneity in words.
        """
        return None if self.summary.site_results is None else site_summary_frame(self.summary.site_results)

    @property
    def remarks(self) -> list[str]:
        """Sentences that belong under a table.

        What ``confound-only`` was given, sites, chosen transforms, and what was left out.
        """
        confounds = self.context.get("confounds")
        sites = None if self.summary.sites is None else self.summary.sites.sentence
        counts = [
            f"{method}: {', '.join(f'{name} {count}' for name, count in counter.most_common())}"
            for method, counter in self.transforms.items()
        ]
        transforms = f"Transforms that the search chose, and in how many folds: {'; '.join(counts)}." if counts else ""
        return [sentence for sentence in (confounds, sites, transforms, *self.left_out) if sentence]

    @property
    def left_out(self) -> list[str]:
        """Sentences about settings that searches could not try and gaps in learning curves: in how many folds, why."""
        return describe_omissions(self.best_first)

    @cached_property
    def transforms(self) -> dict[str, Counter[str]]:
        """Method to how often its search chose each transform ("none" among them), if it had transforms to choose."""
        searched = [row for row in self.best_first if NO_TRANSFORM in row.space.get(TRANSFORM, ())]
        return {
            row.method: Counter(self.records[key]["settings"].get(TRANSFORM, NO_TRANSFORM) for key in row.keys.values())
            for row in searched
        }

    @property
    def verdicts(self) -> dict[str, str]:
        """What the results show about each method, in words."""
        return {row.method: row.verdict for row in self.summary.rows}

    @cached_property
    def predictions(self) -> pd.DataFrame:
        """One row per subject, repeat, fold and method.

        Columns: ``method``, ``repeat``, ``fold``, ``subject``, ``label``, ``prediction`` and ``p_<class>``, the
        probability of each class.
        """
        frames = []
        subjects = None if self.data is None else self.data.identifiers.tolist()
        for row in self.summary.rows:
            for (repeat, fold), key in row.keys.items():
                record = self.records[key]
                names = [str(name) for name in record["classes"]]
                probabilities = pd.DataFrame(record["probabilities"], columns=[f"p_{name}" for name in names])
                first = {
                    "method": row.method,
                    "repeat": repeat,
                    "fold": fold,
                    "subject": [f"subject {i + 1}" if subjects is None else subjects[i] for i in record["test"]],
                    "label": [names[label] for label in record["labels"]],
                    "prediction": [names[index] for index in probabilities.to_numpy().argmax(axis=1)],
                }
                frames.append(pd.concat([pd.DataFrame(first), probabilities], axis=1))
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()

    @cached_property
    def records(self) -> dict[str, dict[str, Any]]:
        """The records of all test folds by key, without those of permutations and audits."""
        if self._records is not None:
            return self._records
        stores = [Store(folder) for folder in self.folders]
        records = {}
        for row in self.summary.rows:
            for key in row.keys.values():
                record = next(filter(None, (store.load_key(key) for store in stores)), None)
                if record is None:
                    raise InputError(f"The record {key} ({row.method}) is missing or damaged; run the benchmark again.")
                records[key] = record
        return records

    @cached_property
    def sweep(self) -> pd.DataFrame | None:
        """One row per value of the varied parameter: metrics, seconds, template of the first fold; None without one."""
        sweep = self.context.get("sweep")
        if sweep is None or None in sweep.values():
            return None
        rows = {row.method: row for row in self.summary.rows}
        return pd.DataFrame(
            {
                sweep["parameter"]: value,
                **{name: rows[label].metrics[name].mean for name in ("accuracy", "weighted_f1", "roc_auc")},
                "seconds": rows[label].seconds,
                "template": self._first_template(rows[label]),
                "verdict": rows[label].verdict,
            }
            for label, value in sweep["methods"].items()
            if label in rows
        )

    def _first_template(self, row: MethodResult) -> list[list[float]] | None:
        if (0, 0) not in row.keys:
            return None
        folder = self.folders[0] / "artifacts" / row.keys[0, 0]
        try:
            templates = read_templates(folder)
        except DamagedError as error:
            warnings.warn(f"{folder}: templates.npz {error}; the table shows no template for it.", stacklevel=2)
            return None
        return None if templates is None else templates[0].astype(float).round(4).tolist()

    def _repr_html_(self) -> str:
        """For notebooks: verdicts and notes, then each method's ROC AUC and accuracy with their intervals."""
        sentences = [f"{row.method}: {row.verdict}." for row in self.best_first] + self.remarks + self.notes
        rows = [
            f"<tr><th>{html.escape(row.method)}</th><td>{interval(*row.metrics['roc_auc'])}</td>"
            f"<td>{interval(*row.metrics['accuracy'])}</td></tr>"
            for row in self.best_first
        ]
        head = "<tr><th>method</th><th>ROC AUC [95 %]</th><th>accuracy [95 %]</th></tr>"
        words = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in sentences)
        return (
            f"<p>{html.escape(self.title)}</p><ul>{words}</ul>"
            f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"
        )

    def report(
        self,
        path: str | Path,
        *,
        figures: str | Path | None = None,
        title: str | None = None,
        positive_class: str | None = None,
    ) -> Path:
        """Write one self-contained HTML page about the results.

        Parameters
        ----------
        path : path
            The page.
        figures : path, optional
            A folder for every figure as PNG and SVG.
        title : str, optional
            The title of the page; by default the name of the dataset.
        positive_class : str, optional
            The class that sensitivity, specificity, precision and curves are about, if there are two; by default the
            last one. Metrics of the table do not depend on it.

        Returns
        -------
        path : Path
            The page.
        """
        from isocapsnet._reporting import make_content
        from isocapsnet.report.figures import save_figure
        from isocapsnet.report.page import render

        def save(drawing: Any) -> None:
            enter_stage(f"figure {drawing.name}")
            if figures is not None:
                save_figure(drawing.figure, Path(figures), drawing.name)

        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        content = make_content(self, created=date.today().isoformat(), title=title, positive_class=positive_class)
        page = render(content, save)
        target.write_text(page, encoding="utf-8")
        return target

    @property
    def plot(self) -> Plots:
        """The figures of the report: ``results.plot.<name>()`` returns a matplotlib figure.

        Those of one method take its name: ``results.plot.roc("linear")``; those of an evidence card take its title.
        """
        return Plots(self)


def describe_call(function: str, *arguments: Any) -> str:
    """The call of a function of the front door as text; the last argument has the keywords."""
    *positional, keywords = arguments
    shown = [reprlib.repr(value) for value in positional if value is not None]
    shown += [f"{name}={reprlib.repr(value)}" for name, value in keywords.items()]
    return f"isocapsnet.{function}({', '.join(shown)})"
