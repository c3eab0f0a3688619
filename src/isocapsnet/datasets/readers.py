"""One function that reads a researcher's connectomes, whatever they are in."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from isocapsnet._validation import InputError, check_number, check_option
from isocapsnet.datasets.archive import read_archive
from isocapsnet.datasets.atlas import ATLASES, load_atlas
from isocapsnet.datasets.duplicates import find_duplicates
from isocapsnet.datasets.formats.folder import read_folder
from isocapsnet.datasets.formats.geometric import is_geometric, read_geometric
from isocapsnet.datasets.formats.pickles import find_folds, read_folds
from isocapsnet.datasets.formats.stacked import read_mat_stack, read_npz
from isocapsnet.datasets.formats.tudataset import find_prefix, read_tudataset
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.isolation import ReadLimit
from isocapsnet.datasets.nodes import layout_of, match_nodes
from isocapsnet.datasets.storage import is_saved
from isocapsnet.datasets.study import Findings, Layout, ReadOptions, Study, assemble

# Options that say which files to read and where their columns are, and options that name columns.
_FOLDER_OPTIONS = ("participants", "select", "kind", "index_base", "directed")
_COLUMN_OPTIONS = ("target", "site", "covariates")


def load_graphs(
    source: Any,
    *,
    target: str | None = None,
    site: str | None = None,
    covariates: Sequence[str] | None = None,
    participants: str | Path | None = None,
    select: Sequence[str] = (),
    exclude: Sequence[str] = (),
    kind: Literal["auto", "graphs", "edges", "series"] = "auto",
    atlas: str | None = None,
    n_nodes: int | None = None,
    index_base: Literal[0, 1] | None = None,
    directed: bool | None = None,
    like: BrainGraphs | Layout | None = None,
    read_limit: int | None = None,
) -> BrainGraphs:
    """Read connectomes or ROI time series with what is known about their subjects.

    Parameters
    ----------
    source : path or list
        A folder with one matrix, edge list or time series per subject (``.csv``, ``.tsv``, ``.txt``, ``.1D``, ``.npy``,
        ``.mat``, ``.graphml``, ``.edges``, ``.edgelist``) and a participants table; BIDS derivatives
        (``*_relmat.tsv``, ``*_timeseries.tsv``); a TUDataset folder; the paper authors' folder of pickled folds; an
        ``.npz`` or ``.mat`` with all graphs; or a list of PyTorch Geometric ``Data``.
    target : str, optional
        Column of the participants table, or array of an ``.npz`` or ``.mat``, that holds the labels. In a folder also
        "@subject" (the letters that a subject's id starts with: control in sub-control50030) and "@folder" (the folder
        that a subject's file lies in).
    site, covariates : optional
        Columns or arrays of acquisition sites and of covariates. An ``.npz`` or ``.mat`` brings all its arrays of
        one value per graph as covariates unless some are named.
    participants : path, optional
        The table of subjects, where it does not lie with the matrices as ``participants.tsv`` or ``.csv``.
    select : sequence of str, optional
        Parts that the names of the wanted files have, where subjects have several: an atlas, a session, a run.
    exclude : sequence of str, optional
        Subjects to leave out; recorded in the passport.
    kind : {"auto", "graphs", "edges", "series"}
        Which files to read where a folder holds graphs and time series, and what they are where their content does
        not tell.
    atlas : {"aal90", "aal116", "dk82"}, optional
        Names and coordinates of the nodes, where the data do not name their nodes.
    n_nodes : int, optional
        How many nodes graphs have. Edge lists alone do not tell, where the last nodes have no edge; other data are
        refused if they have another number.
    index_base : {0, 1}, optional
        Whether the nodes of edge lists count from 0 or from 1, where their numbers do not tell.
    directed : bool, optional
        Whether edge lists have a direction, where the listed pairs do not tell.
    like : BrainGraphs or Layout, optional
        Data, such as those that a model was fitted to, whose nodes are needed in the same order. Data with other nodes
        are refused; what edge lists do not tell is taken from there.
    read_limit : int, optional
        Bytes of memory that reading may take; files that declare more data than a third of it are refused before
        anything is allocated. The default is the free memory. Arrays that are mapped from an ``.npz`` do not count.

    Raises
    ------
    InputError
        One sentence about the first problem; :func:`examine_graphs` tells all of them.
    """
    table = None if participants is None else Path(participants)
    options = ReadOptions(
        target,
        site,
        covariates,
        table,
        tuple(select),
        tuple(exclude),
        kind,
        atlas,
        n_nodes,
        index_base,
        directed,
        layout_of(like) if isinstance(like, BrainGraphs) else like,
        read_limit,
    )
    findings = Findings()
    data = _read(source, options, findings)
    findings.raise_errors()
    assert data is not None
    return data


def examine_graphs(source: Any, options: ReadOptions | None = None) -> tuple[BrainGraphs | None, Findings]:
    """Read like :func:`load_graphs`, but return all problems instead of raising the first.

    The data are ``None`` when they would be refused. Besides what reading notes, asymmetric graphs, nodes without
    signal and near-duplicate subjects are looked for.
    """
    findings = Findings()
    try:
        data = _read(source, options or ReadOptions(), findings)
    except InputError as error:
        findings.errors.append(str(error))
        data = None
    if data is not None:
        findings.warnings.extend(_look_closer(data))
    return data, findings


def _read(source: Any, options: ReadOptions, findings: Findings) -> BrainGraphs | None:
    check_option("kind", options.kind, ("auto", "graphs", "edges", "series"))
    check_option("index_base", options.index_base, (None, 0, 1))
    if options.n_nodes is not None:
        check_number("n_nodes", options.n_nodes, low=1, integer=True)
    if options.atlas is not None:
        check_option("atlas", options.atlas, tuple(ATLASES))
    limit = ReadLimit(options.read_limit)
    if is_geometric(source):
        _refuse(options, "a list of graphs", *_FOLDER_OPTIONS, *_COLUMN_OPTIONS)
        data = assemble(_exclude(read_geometric(source, limit), options, findings), findings, atlas=options.atlas)
        return None if data is None else match_nodes(data, options)
    path = Path(source)
    if not path.exists():
        raise InputError(f"There is no file or folder {path}.")
    try:
        data = _read_path(path, options, findings, limit)
    except OSError as error:
        raise InputError(f"{error.filename or path} cannot be read ({error.strerror or error}).") from error
    return None if data is None else match_nodes(data, options)


def _read_path(path: Path, options: ReadOptions, findings: Findings, limit: ReadLimit) -> BrainGraphs | None:
    if path.suffix == ".npz" and path.is_file():
        arrays = read_archive(path, limit)
        if is_saved(arrays):
            saved = BrainGraphs.from_arrays(arrays, path.name)
            saved.digest()  # a changed file is noticed here, not when somebody asks for the passport
            data = apply_options(saved, options)
            findings.handled |= {what: list(where) for what, where in data.handled.items()}
            findings.exclusions |= data.exclusions
            return data
        _refuse(options, path.name, *_FOLDER_OPTIONS)
        study = read_npz(path, arrays, options)
    else:
        study = _read_study(path, options, findings, limit)
    if study.is_directed is None and options.like is not None and options.like.directed:
        study.is_directed = True
    return assemble(_exclude(study, options, findings), findings, atlas=options.atlas, name=path.stem)


def _read_study(path: Path, options: ReadOptions, findings: Findings, limit: ReadLimit) -> Study:
    """Recognise the format and read it."""
    folds = find_folds(path) if path.is_dir() else [path] if path.name.startswith("fold_") else []
    is_tudataset = path.is_dir() and find_prefix(path) is not None
    if path.is_dir() and not folds and not is_tudataset:
        return read_folder(path, options, findings, limit)
    _refuse(options, path.name, *_FOLDER_OPTIONS)
    if folds or is_tudataset:
        _refuse(options, path.name, *_COLUMN_OPTIONS)
        return read_folds(folds, findings, limit) if folds else read_tudataset(path, findings, limit)
    if path.suffix == ".mat":
        return read_mat_stack(path, options, limit)
    if path.suffix in (".pt", ".pth", ".pkl", ".pickle"):
        raise InputError(
            f"{path.name} is a pickle, which can run any code when it is opened; load it yourself and pass the list "
            "of graphs to load_graphs, or save it as .npz."
        )
    raise InputError(
        f"{path.name} is of no format known here; give a folder with one matrix per subject, an .npz or a .mat."
    )


def apply_options(data: BrainGraphs, options: ReadOptions) -> BrainGraphs:
    """Apply options to data that are read already; columns are then covariates."""
    _refuse(options, data.name or "the data", *_FOLDER_OPTIONS)
    covariates = data.covariates
    known = [] if covariates is None else list(covariates.columns)
    target = None if options.target == "labels" else options.target
    wanted = [column for column in (target, options.site, *(options.covariates or ())) if column]
    if missing := [column for column in wanted if column not in known]:
        raise InputError(f"{data.name} has no covariate {missing[0]!r}; it has {', '.join(known) or 'none'}.")
    changes: dict[str, Any] = {}
    if covariates is not None:
        if target:
            changes |= {"labels": covariates[target].tolist(), "label_names": None}
        if options.site:
            changes["sites"] = covariates[options.site].tolist()
        if options.covariates:
            changes["covariates"] = covariates[list(options.covariates)]
    if options.atlas is not None:
        changes["atlas"] = load_atlas(options.atlas)
    data = data.replace(**changes) if changes else data
    if options.exclude:
        _check_known(options.exclude, data.subjects.tolist())
        data = data.subset(~np.isin(data.subjects, list(options.exclude)), reason="excluded on request")
    return data


def _refuse(options: ReadOptions, what: str, *names: str) -> None:
    """Refuse options that would be ignored."""
    for name in names:
        if getattr(options, name) not in (None, (), "auto"):
            raise InputError(f"--{name.replace('_', '-')} does not apply to {what}; leave it out.")


def _exclude(study: Study, options: ReadOptions, findings: Findings) -> Study:
    """Leave out the subjects that the user named, of a study that is in memory."""
    excluded = {name for name in options.exclude if name.removeprefix("sub-") not in findings.exclusions}
    if not excluded:
        return study
    _check_known(sorted(excluded), study.subjects)
    keep = [i for i, subject in enumerate(study.subjects) if subject not in excluded]
    findings.exclusions |= dict.fromkeys(sorted(excluded), "excluded on request")
    position = {old: new for new, old in enumerate(keep)}

    def kept(values: Any) -> Any:
        return None if values is None else [values[i] for i in keep]

    return replace(
        study,
        matrices=study.matrices[keep] if isinstance(study.matrices, np.ndarray) else kept(study.matrices),
        sources=kept(study.sources),
        subjects=kept(study.subjects),
        labels=kept(study.labels),
        sites=kept(study.sites),
        covariates=None if study.covariates is None else study.covariates.iloc[keep],
        folds=[np.array([position[i] for i in fold.tolist() if i in position], dtype=np.int64) for fold in study.folds],
    )


def _check_known(excluded: Sequence[str], subjects: Sequence[str]) -> None:
    unknown = [subject for subject in excluded if subject not in set(subjects)]
    if unknown:
        raise InputError(
            f"There is no subject {unknown[0]!r} to exclude; subjects are called {subjects[0]!r}, for example."
        )


def _look_closer(data: BrainGraphs) -> list[str]:
    """Sentences about what is readable but worth knowing."""
    sentences = []
    graphs = data.passport["graphs"]
    if graphs is not None:
        if not graphs["symmetric"]:
            sentences.append(
                f"The graphs are not symmetric (by up to {graphs['largest_asymmetry']:.3g}); they are kept as directed."
            )
        if graphs["n_nodes_without_signal"]:
            sentences.append(
                f"{graphs['n_graphs_with_nodes_without_signal']} graphs have nodes without any edge "
                f"({graphs['n_nodes_without_signal']} nodes in all)."
            )
    if not data.label_names:
        sentences.append("There are no labels; name the column of classes with --target.")
    pairs, n_pairs = find_duplicates(data)
    if n_pairs:
        listed = ", ".join(f"{first} and {second} ({correlation:.4f})" for first, second, correlation in pairs[:6])
        sentences.append(
            f"{n_pairs:,} pair(s) of subjects may be the same person, because their edges correlate above 0.99: "
            f"{listed}{'...' if n_pairs > 6 else ''}"
        )
    return sentences
