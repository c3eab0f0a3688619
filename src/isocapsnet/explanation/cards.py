"""Evidence cards: where a learned template matches, how well it separates the classes, and whether it is stable.

Cards hold plain data: ``dataclasses.asdict`` gives numbers, text, lists and dicts for files.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Effect:
    """Cohen's d on graphs that the fit did not see, with a 95 % interval.

    Positive if evidence for a class is higher in graphs of that class. The interval is the normal approximation for the
    number of different subjects: repeats of a cross-validation do not make it narrower.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Agreement:
    """Mean correlation over pairs of fits, the 95th percentile of it under the null hypothesis, and its p-value."""

    value: float
    null: float
    p_value: float


@dataclass(frozen=True)
class Orientation:
    """The most frequent permutation in a window: template node ``permutation[a]`` lies on the a-th node of the window.

    ``share`` is the share of graphs with this permutation.
    """

    permutation: list[int]
    share: float


@dataclass(frozen=True)
class Window:
    """A window ``A[row:row + k, column:column + k]`` in which the template matches.

    Attributes
    ----------
    row, column : int
        First nodes of the window.
    share : float
        Part of the template's separation of the classes that comes from this window; negative if it is against the
        true class. The absolute shares of all windows sum to 1.
    effect : Effect
        Of the evidence in this window.
    scores : list of float (n_classes,)
        Mean match score per class, 1 at a perfect match.
    favours : int
        The class with the highest mean score.
    orientations : list of Orientation (n_classes,)
    """

    row: int
    column: int
    share: float
    effect: Effect
    scores: list[float]
    favours: int
    orientations: list[Orientation]


@dataclass(frozen=True)
class Region:
    """A node over which the template separates the classes.

    Attributes
    ----------
    node : int
    share : float
        Part of the template's separation of the classes that comes from windows whose rows or columns contain the
        node. The absolute shares of all nodes sum to 1.
    effect : Effect
        Of the evidence in these windows. Nodes are selected by their share in the same graphs, so their effects are
        slightly too large; those of windows and templates are not.
    n_fits : int
        Number of fits in which the node is among the ``kernel_size`` nodes with the largest share.
    favours : int
        The class in which the template matches better over this node.
    """

    node: int
    share: float
    effect: Effect
    n_fits: int
    favours: int


@dataclass(frozen=True)
class EvidenceCard:
    """The evidence of one template over all fits.

    Attributes
    ----------
    template : int
        Index in the first fit; the templates of the other fits were aligned to it.
    matrix : list of lists (kernel_size, kernel_size)
        Mean of the aligned templates, in scaled units; edges are signed.
    n_fits : int
        Number of fits (folds x repeats).
    n_left_out : int
        Number of fits that cannot be compared: the size or number of their templates differs (tuning can choose it),
        or they have fewer than two unseen graphs of a class.
    n_separating : int
        Number of fits in which the template separates the classes of unseen graphs (p <= 0.05 each).
    p_value : float
        Combined over the fits and adjusted for the number of templates.
    separation : float
        Mean evidence in the class minus mean evidence in the rest, in units of the class score.
    effect : Effect
        Of the template's whole evidence, mean over fits.
    places : Agreement or None
        Of the separation by region between fits; None for fewer than three fits.
    shape : Agreement or None
        Of the aligned templates between fits; None for fewer than three fits.
    windows : list of Window
        The most influential first; labels play no part in this selection, so effects are not biased by it.
    regions : list of Region
        The largest share first.
    verdict : {"stable", "not stable", "not assessed"}
        "not assessed" for fewer than three fits.
    sentence : str
        The verdict with its reasons.
    """

    template: int
    matrix: list[list[float]]
    n_fits: int
    n_left_out: int
    n_separating: int
    p_value: float
    separation: float
    effect: Effect
    places: Agreement | None
    shape: Agreement | None
    windows: list[Window]
    regions: list[Region]
    verdict: str
    sentence: str
