"""One function that reads connectomes of all formats, and the registry of formats."""

import itertools
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from isocapsnet._validation import InputError, check_number, check_option
from isocapsnet.datasets.atlas import Atlas, Layout, load_atlas, match_nodes
from isocapsnet.datasets.duplicates import describe_unusual
from isocapsnet.datasets.findings import Findings
from isocapsnet.datasets.formats import folder, geometric, nel, pickles, rows, stacked, tudataset
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.isolation import ReadLimit
from isocapsnet.datasets.reading import COLUMN_OPTIONS, FILE_OPTIONS, Reader, ReadOptions, apply_options

#: Name to reader. The first that recognises a source reads it; the last takes any folder.
READERS: dict[str, Reader] = {
    "geometric": geometric.READER,
    "arrays": stacked.ARRAYS,
    "npz": stacked.NPZ,
    "mat": stacked.MAT,
    "npy": stacked.NPY,
    "rows": rows.READER,
    "nel": nel.READER,
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
    participants: str | Path | pd.DataFrame | None = None,
    where: str | Sequence[str] = (),
    array: str | None = None,
    subjects: str | Path | Sequence[str] | None = None,
    select: str | Sequence[str] = (),
    exclude: str | Sequence[str] = (),
    skip_refused: bool = False,
    kind: Literal["auto", "graphs", "edges", "series"] = "auto",
    atlas: str | Path | Atlas | None = None,
    n_nodes: int | None = None,
    index_base: Literal[0, 1] | None = None,
    directed: bool | None = None,
    triangle: Literal["upper", "lower"] | None = None,
    regions: str | Path | None = None,
    max_missing: float | None = None,
    like: BrainGraphs | Layout | None = None,
    read_limit: int | None = None,
) -> BrainGraphs:
    """Read connectomes or ROI time series with the data of their subjects.

    Parameters
    ----------
    source : path, name, array, DataFrame, mapping, list or BrainGraphs
        A folder with one matrix, edge list or time series per subject (``.csv``, ``.tsv``, ``.txt``, ``.1D``, ``.npy``,
        ``.mat``, ``.npz``, ``.graphml``, ``.edges``, ``.edgelist``, ``.pconn.nii``) and a participants table; BIDS
        derivatives (``*_relmat.tsv``, ``*_timeseries.tsv``); a TUDataset folder; the paper authors' folder of pickled
        folds; an ``.npz``, ``.mat`` or ``.npy`` with all graphs, also a dictionary of arrays; a table with one row of
        edges per subject, or an edge list with a column of subjects; a ``.nel`` file; or the name of a dataset of
        :data:`~isocapsnet.datasets.catalog.CATALOG`, such as "planted", unless a file or folder has that name. In
        memory: graphs ``(n_graphs, n_nodes, n_nodes)``, a tuple of graphs and labels, a mapping of arrays, a DataFrame
        with one row of edges per subject, or a list of PyTorch Geometric ``Data``.
    target : str, optional
        Column of the participants table, or array or column of the data, that has the labels. For a folder also
        "@subject" (the letters at the start of a subject's id: control in sub-control50030) and "@folder" (the folder
        that contains the subject's file).
    site, covariates : optional
        Columns or arrays of acquisition sites and of covariates. For a folder, site may also be "@file" (what is before
        the subject's number in the file name: NYU in NYU_0050952_rois) or "@folder". Of data in one file, all arrays of
        one value per graph are covariates, unless some are named.
    participants : path or DataFrame, optional
        The table of subjects, if it is not ``participants.tsv`` or ``.csv`` in the folder of the matrices. Rows of a
        DataFrame are in the order of graphs that have no identifiers.
    where : str or sequence of str, optional
        Conditions on rows of the participants table, such as "Modality=fMRI" or "Visit!=2"; all others are left out.
        Several rows of a subject that agree in all columns that are used count once; others are refused.
    array : str, optional
        The array of graphs, if a file has several.
    subjects : str, path or sequence of str, optional
        Identifiers of the subjects: an array or column of the data; a file with one per line, in the order of the
        graphs; or a column of the participants table, whose rows are then in the order of graphs without identifiers.
    select : str or sequence of str, optional
        Texts that the path of a file inside the folder must contain, if subjects have several files: an atlas, a
        session, a run.
    exclude : str or sequence of str, optional
        Subjects to leave out, in any spelling; "@FILE" is a file with one per line. Recorded in the passport.
    skip_refused : bool
        Leave out the subjects whose files are refused, with the reason in the passport, instead of refusing the data.
    kind : {"auto", "graphs", "edges", "series"}
        Which files to read if a folder has graphs and time series, and what they contain if that is ambiguous.
    atlas : str, path or Atlas, optional
        Names, coordinates and networks of the nodes: one of ``isocapsnet.datasets.atlas.ATLASES``, such as
        "aal116" or "schaefer200", or a table; see :func:`~isocapsnet.datasets.load_atlas`. It is refused if its number
        of regions is another one, or if the data name nodes that it does not have.
    n_nodes : int, optional
        The number of nodes. It is not in edge lists if the last nodes have no edge. Other data are refused if they have
        another number.
    index_base : {0, 1}, optional
        Number of the first node of edge lists, or of the first region in ``regions``, if that is ambiguous.
    directed : bool, optional
        Whether edge lists are directed, if that is ambiguous.
    triangle : {"upper", "lower"}, optional
        Which triangle of its matrix a row of edges is, written row by row, if the columns do not say so.
    regions : path, optional
        A list of the regions of each subject, if matrices of different sizes do not name their nodes: a table with a
        column of subjects and one called regions, a ``.json``, or a folder of files ``NAME_regions.txt``. By default
        ``regions.csv``, ``.tsv`` or ``.json`` of the folder, or such files in it.
    max_missing : float, optional
        The share of regions that a subject may lack, by default 0.5. Missing regions have no edges.
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
    data = read_graphs(source, options, findings)
    if data is None or findings.errors:
        first, *others = findings.errors
        more = f" ({len(others):,} more problems; isocapsnet.check_data lists all of them)" if others else ""
        raise InputError(f"{first}{more}")
    return data


def examine_graphs(source: Any, options: ReadOptions | None = None) -> tuple[BrainGraphs | None, Findings]:
    """Read like :func:`load_graphs`, but return all problems instead of raising the first.

    ``source`` and ``options`` are those of :func:`load_graphs`. The data are ``None`` if they would be refused. The
    findings also include asymmetric graphs, nodes without signal and near-duplicate subjects.
    """
    findings, data = Findings(), None
    with findings.noting():
        data = read_graphs(source, options or ReadOptions(), findings)
    if data is not None:
        findings.warnings.extend(describe_unusual(data))
    return data, findings


def read_graphs(source: Any, options: ReadOptions, findings: Findings) -> BrainGraphs | None:
    """Read, noting problems; with ``skip_refused``, again without the subjects that are refused."""
    _check_options(options)
    if not options.skip_refused:
        return _read_once(source, options, findings)
    data: BrainGraphs | None = None
    set_aside: dict[str, str] = {}
    while True:
        attempt = Findings()
        without = replace(options, exclude=(*options.exclude, *set_aside))
        with attempt.noting():
            data = _read_once(source, without, attempt)
        refused = attempt.find_refused() if attempt.errors else {}
        if not refused or {*refused} <= {*set_aside}:
            break
        set_aside |= refused
    if set_aside:
        attempt.exclusions |= {subject: f"set aside: {sentence}" for subject, sentence in set_aside.items()}
        attempt.handle("subjects set aside, because their data are refused", f"{len(set_aside)} subjects")
        attempt.warnings.append(f"{len(set_aside)} subject(s) were set aside, because their data are refused.")
    attempt.name_exclusions()
    vars(findings).update(vars(attempt))
    if attempt.errors:
        return None
    if data is not None and set_aside:
        data = data.replace(exclusions=attempt.exclusions, handled=attempt.handled)
    return data


def _check_options(options: ReadOptions) -> None:
    check_option("kind", options.kind, ("auto", "graphs", "edges", "series"))
    check_option("index_base", options.index_base, (None, 0, 1))
    check_option("triangle", options.triangle, (None, "upper", "lower"))
    if options.n_nodes is not None:
        check_number("n_nodes", options.n_nodes, low=1, integer=True)
    if options.max_missing is not None:
        check_number("max_missing", options.max_missing, low=0, high=1)
    if options.atlas is not None:
        load_atlas(options.atlas)  # refused before anything is read
    if options.read_limit is not None:
        check_number("read_limit", options.read_limit, low=0, open_low=True)


def _read_once(source: Any, options: ReadOptions, findings: Findings) -> BrainGraphs | None:
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
            _refuse_options(options, reader.options, source.name if isinstance(source, Path) else "such data in memory")
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
    if source.suffix.lower() in (".rdata", ".rda", ".rds"):
        raise InputError(
            f"{source.name} is a file of R, which is not read. In R, write every matrix with "
            'write.table(matrix, "sub-ID.csv", sep=",", row.names=FALSE, col.names=FALSE) into one folder, and the '
            "table of subjects with write.csv into participants.csv there."
        )
    raise InputError(
        f"The format of {source.name} is not supported; give a folder of matrices, a file with all subjects (.npz, "
        ".mat, .npy, .csv, .tsv, .txt, .nel), or install a reader for it."
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
    for name in options.given((*FILE_OPTIONS, *COLUMN_OPTIONS)):
        if name not in used:
            raise InputError(f"{name}= does not apply to {what}; leave it out.")
