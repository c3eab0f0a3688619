"""One function that reads connectomes of all formats, and the registry of formats."""

import itertools
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from isocapsnet._validation import InputError, check_number, check_option
from isocapsnet.datasets.atlas import ATLASES, Layout, match_nodes
from isocapsnet.datasets.duplicates import find_duplicates
from isocapsnet.datasets.formats import folder, geometric, pickles, stacked, tudataset
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.isolation import ReadLimit
from isocapsnet.datasets.reading import COLUMN_OPTIONS, FOLDER_OPTIONS, Findings, Reader, ReadOptions, apply_options

#: Name to reader. The first that recognises a source reads it; the last takes any folder.
READERS: dict[str, Reader] = {
    "geometric": geometric.READER,
    "npz": stacked.NPZ,
    "mat": stacked.MAT,
    "folds": pickles.READER,
    "tudataset": tudataset.READER,
    "folder": folder.READER,
}
#: Entry points through which other packages add readers; their objects are instances of :class:`Reader`.
PLUGIN_GROUP = "isocapsnet.readers"


def load_graphs(
    source: Any,
    *,
    target: str | None = None,
    site: str | None = None,
    covariates: str | Sequence[str] | None = None,
    participants: str | Path | None = None,
    select: str | Sequence[str] = (),
    exclude: str | Sequence[str] = (),
    kind: Literal["auto", "graphs", "edges", "series"] = "auto",
    atlas: str | None = None,
    n_nodes: int | None = None,
    index_base: Literal[0, 1] | None = None,
    directed: bool | None = None,
    like: BrainGraphs | Layout | None = None,
    read_limit: int | None = None,
) -> BrainGraphs:
    """Read connectomes or ROI time series with the data of their subjects.

    Parameters
    ----------
    source : path, name, list or BrainGraphs
        A folder with one matrix, edge list or time series per subject (``.csv``, ``.tsv``, ``.txt``, ``.1D``, ``.npy``,
        ``.mat``, ``.graphml``, ``.edges``, ``.edgelist``) and a participants table; BIDS derivatives
        (``*_relmat.tsv``, ``*_timeseries.tsv``); a TUDataset folder; the paper authors' folder of pickled folds; an
        ``.npz`` or ``.mat`` with all graphs; a list of PyTorch Geometric ``Data``; or the name of a dataset of
        :data:`~isocapsnet.datasets.catalog.CATALOG`, such as "planted", unless a file or folder has that name.
    target : str, optional
        Column of the participants table, or array of an ``.npz`` or ``.mat``, that has the labels. For a folder also
        "@subject" (the letters at the start of a subject's id: control in sub-control50030) and "@folder" (the folder
        that contains the subject's file).
    site, covariates : optional
        Columns or arrays of acquisition sites and of covariates. Of an ``.npz`` or ``.mat``, all arrays of one
        value per graph are covariates, unless some are named.
    participants : path, optional
        The table of subjects, if it is not ``participants.tsv`` or ``.csv`` in the folder of the matrices.
    select : str or sequence of str, optional
        Texts that file names must contain, if subjects have several files: an atlas, a session, a run.
    exclude : str or sequence of str, optional
        Subjects to leave out; recorded in the passport.
    kind : {"auto", "graphs", "edges", "series"}
        Which files to read if a folder has graphs and time series, and what they contain if that is ambiguous.
    atlas : {"aal90", "aal116", "dk82"}, optional
        Names and coordinates of the nodes, if the data do not have them.
    n_nodes : int, optional
        The number of nodes. It is not in edge lists if the last nodes have no edge. Other data are refused if they have
        another number.
    index_base : {0, 1}, optional
        Number of the first node of edge lists, if that is ambiguous.
    directed : bool, optional
        Whether edge lists are directed, if that is ambiguous.
    like : BrainGraphs or Layout, optional
        Data whose nodes are needed in the same order, such as those that a model was fitted to. Data with other nodes
        are refused. Edge lists that are ambiguous are read in the same way.
    read_limit : int, optional
        Bytes of memory that reading may use. Files that declare more data than a third of it are refused before
        anything is allocated. The default is the free memory. Arrays that are mapped from an ``.npz`` do not count.

    Returns
    -------
    data : BrainGraphs
        Graphs or time series, labels, subjects, and a passport of what was read and corrected.

    Raises
    ------
    InputError
        One sentence about the first problem; :func:`examine_graphs` returns all of them.
    """
    given: dict[str, Any] = {name: value for name, value in locals().items() if name != "source"}
    options = ReadOptions(**given)
    findings = Findings()
    data = _read(source, options, findings)
    if data is None or findings.errors:
        first, *others = findings.errors
        more = f" ({len(others)} more problems; isocapsnet.check_data lists all of them)" if others else ""
        raise InputError(f"{first}{more}")
    return data


def examine_graphs(source: Any, options: ReadOptions | None = None) -> tuple[BrainGraphs | None, Findings]:
    """Read like :func:`load_graphs`, but return all problems instead of raising the first.

    ``source`` and ``options`` are those of :func:`load_graphs`. The data are ``None`` if they would be refused. The
    findings also include asymmetric graphs, nodes without signal
    and near-duplicate subjects.
    """
    findings, data = Findings(), None
    with findings.noting():
        data = _read(source, options or ReadOptions(), findings)
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
    if options.read_limit is not None:
        check_number("read_limit", options.read_limit, low=0, open_low=True)
    from isocapsnet.datasets.catalog import CATALOG, fetch_graphs  # which reads with this module

    data: BrainGraphs | None
    try:
        if isinstance(source, BrainGraphs):
            _refuse_options(options, COLUMN_OPTIONS, "data in memory")
            data = apply_options(source, options, findings)
        elif isinstance(source, str) and source in CATALOG and not Path(source).exists():
            _refuse_options(options, COLUMN_OPTIONS, source)
            data = apply_options(fetch_graphs(source), options, findings)
        else:
            source = Path(source) if isinstance(source, str | os.PathLike) else source
            reader = _find_reader(source)
            _refuse_options(options, reader.options, source.name if isinstance(source, Path) else "a list of graphs")
            data = reader.read(source, options, findings, ReadLimit(options.read_limit))
    except OSError as error:
        raise InputError(f"{error.filename or source} cannot be read ({error.strerror or error}).") from error
    return None if data is None else match_nodes(data, options.n_nodes, options.like)


def _find_reader(source: Any) -> Reader:
    """The first built-in reader that recognises a source, else a plugin, else the one that takes every folder."""
    *special, folder = READERS.values()
    own = (reader for reader in special if reader.recognise(source))
    rest = (reader for reader in (folder,) if reader.recognise(source))
    for reader in itertools.chain(own, _find_plugins(source), rest):  # looking for plugins takes about 10 ms
        return reader
    if not isinstance(source, Path):
        raise InputError(f"Objects of type {type(source).__name__} cannot be read as graphs; give a path.")
    if not source.exists():
        from isocapsnet.datasets.catalog import CATALOG

        raise InputError(f"There is no file, folder or dataset {source}; the datasets are {', '.join(CATALOG)}.")
    if source.suffix in (".pt", ".pth", ".pkl", ".pickle"):
        raise InputError(
            f"{source.name} is a pickle, which can run any code when it is opened; load it yourself and pass the list "
            "of graphs to load_graphs, or save it as .npz."
        )
    raise InputError(
        f"The format of {source.name} is not supported; give a folder of matrices, an .npz or a .mat, or install a "
        "reader for it."
    )


def _find_plugins(source: Any) -> Iterator[Reader]:
    """Readers of other packages that recognise a source. There is a warning for one that fails."""
    from importlib.metadata import entry_points

    for point in entry_points(group=PLUGIN_GROUP):
        try:
            if point.name in READERS:
                raise InputError("a built-in reader has this name")
            reader = point.load()
            if not isinstance(reader, Reader):
                raise InputError(f"it is a {type(reader).__name__}, not a Reader")
            is_recognised = reader.recognise(source)
        except Exception as error:  # the code of others can fail in any way
            warnings.warn(f"The reader plugin {point.name!r} ({point.value}) is not used: {error}.", stacklevel=2)
        else:
            if is_recognised:
                yield replace(reader, read=_in_a_sentence(point.name, reader.read))


def _in_a_sentence(name: str, read: Callable[..., BrainGraphs | None]) -> Callable[..., BrainGraphs | None]:
    """A function of a plugin whose exceptions refuse the source."""

    def guarded(source: Any, *arguments: Any) -> BrainGraphs | None:
        try:
            return read(source, *arguments)
        except (InputError, OSError):
            raise
        except Exception as error:
            where = source.name if isinstance(source, Path) else "The data"
            reason = " ".join(str(error).split())[:200]
            raise InputError(
                f"{where} cannot be read by the reader plugin {name!r} ({type(error).__name__}: {reason})."
            ) from error

    return guarded


def _refuse_options(options: ReadOptions, used: Sequence[str], what: str) -> None:
    """Refuse options that would be ignored."""
    for name in (*FOLDER_OPTIONS, *COLUMN_OPTIONS):
        if name not in used and getattr(options, name) not in (None, (), "auto"):
            raise InputError(f"{name}= does not apply to {what}; leave it out.")


def _look_closer(data: BrainGraphs) -> list[str]:
    """Warnings about data that can be read but are unusual."""
    sentences: list[str] = []
    if (graphs := data.passport["graphs"]) is not None:
        n_graphs, n_silent = graphs["n_graphs_with_nodes_without_signal"], graphs["n_nodes_without_signal"]
        if not graphs["symmetric"]:
            asymmetry = graphs["largest_asymmetry"]
            sentences.append(f"The graphs are not symmetric (by up to {asymmetry:.3g}); they are kept as directed.")
        if n_silent:
            sentences.append(f"{n_graphs} graphs have nodes without any edge ({n_silent} nodes in all).")
    if not data.label_names:
        sentences.append("There are no labels; name the column of classes with target=.")
    pairs, n_pairs = find_duplicates(data)
    if n_pairs:
        listed = ", ".join(f"{first} and {second} ({correlation:.4f})" for first, second, correlation in pairs[:6])
        sentences.append(
            f"{n_pairs:,} pair(s) of subjects may be the same person, because their edges correlate above 0.99: "
            f"{listed}{'...' if n_pairs > 6 else ''}"
        )
    return sentences
