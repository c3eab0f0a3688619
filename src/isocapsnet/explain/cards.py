"""Evidence cards: what a learned template shows, where, how strongly, and whether other fits show it too.

Everything here is plain data that JSON can hold; :meth:`EvidenceCard.to_json` is what a report draws.
"""

from dataclasses import asdict, dataclass
from typing import Any

#: What a card can say of its template.
VERDICTS = ("stable", "not stable", "not assessed")


@dataclass(frozen=True)
class Effect:
    """Cohen's d on graphs that the fit did not see, with a 95 % interval.

    Positive where evidence for a class is higher in graphs of that class, as it should be. The interval is the normal
    approximation for as many subjects as there are: repeats of a cross-validation do not narrow it.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Agreement:
    """How alike something is in two fits, on average over pairs of fits.

    Attributes
    ----------
    value : float
        Mean correlation between fits.
    null : float
        The 95th percentile of the same under the null hypothesis.
    p_value : float
    """

    value: float
    null: float
    p_value: float


@dataclass(frozen=True)
class Orientation:
    """The permutation found most often in a window: template node ``permutation[a]`` lies on the window's a-th node.

    ``share`` is the part of the graphs in which it was found.
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
        Part of the template's separation of the classes that arises here, negative where it works against the others;
        the absolute shares of all windows sum to 1.
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
        Part of the template's separation of the classes in the windows whose rows or columns contain the node; the
        absolute shares of all nodes sum to 1.
    effect : Effect
        Of the evidence in these windows. Nodes are listed by their share in the same graphs, which flatters effects a
        little; those of windows and templates are free of this.
    n_fits : int
        Fits in which the node is among the first ``kernel_size``.
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
    """What is known of one template over all fits.

    Attributes
    ----------
    template : int
        Index in the first fit, to which the templates of the others were aligned.
    matrix, matrix_deviation : list of lists (kernel_size, kernel_size)
        Mean and standard deviation of the aligned templates, in scaled units; edges are signed.
    n_fits : int
        Fits (folds x repeats) behind the card.
    n_left_out : int
        Fits that cannot be compared: their templates have another size or number (tuning may choose so), or they
        have fewer than two unseen graphs of a class.
    n_separating : int
        Fits in which the template separates the classes of unseen graphs (p <= 0.05 each).
    p_value : float
        That nine of ten fits do so by chance, adjusted over the templates.
    separation : float
        How far the template's evidence sets the classes apart, in units of the class score.
    effect : Effect
        Of the template's whole evidence, mean over fits.
    places : Agreement or None
        Of the separation by region between fits; None with too few fits.
    shape : Agreement or None
        Of the template itself between fits, after alignment; None with too few fits.
    windows : list of Window
        The most influential first; chosen without looking at labels, so that their effects are not flattered.
    regions : list of Region
        The largest share first.
    region_shares : list of float (n_nodes,)
        The share of every node.
    verdict : {"stable", "not stable", "not assessed"}
        "not assessed" with fewer than three fits.
    sentence : str
        The verdict with its reasons, for people.
    """

    template: int
    matrix: list[list[float]]
    matrix_deviation: list[list[float]]
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
    region_shares: list[float]
    verdict: str
    sentence: str

    def to_json(self) -> dict[str, Any]:
        """Nested dicts, lists, numbers and text."""
        return asdict(self)
