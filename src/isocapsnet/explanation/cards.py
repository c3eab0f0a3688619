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
    """The most frequent permutation in a window: template node ``permutation[a]`` matches the a-th node of the window.

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


@dataclass(frozen=True)
class Carrier:
    """A graph in which a motif occurs.

    Attributes
    ----------
    subject : str
    label : int
        Code of the class.
    distance : float
        Of its best window from the motif: 0 at the mean of the carriers, 1 at what graphs of other classes have in its
        place, negative where the motif is stronger than in that mean. The smallest is the clearest.
    nodes : list of int
        Node a of the motif is at ``nodes[a]``.
    """

    subject: str
    label: int
    distance: float
    nodes: list[int]


@dataclass(frozen=True)
class MotifCard:
    """The evidence of a motif, which has no fixed position, over all fits.

    Motifs of a fit that look alike (cosine of their patterns of at least 0.95 in the best order of nodes) are one motif
    here: their contributions to the class scores are added.

    Attributes
    ----------
    motif : int
        Rank by importance, from 0.
    matrix : list of lists (motif_size, motif_size)
        What training graphs that carry the motif have in common, mean over fits: deviations from the mean.
    learned : list of lists (motif_size, motif_size)
        The learned template, mean over fits, in the same units and order of nodes.
    unit : str
        Of both.
    n_members : int
        Learned templates that look alike, in the fit that the others are compared with.
    importance : float
        Standard deviation of the motif's part in the margin over training graphs, relative to that of all motifs.
    n_fits : int
        Number of fits.
    n_left_out : int
        Number of fits that cannot be compared: their motifs have another size or number, or they have fewer than two
        unseen graphs of a class.
    n_without : int
        Number of fits in which the motif form has weight 0. They count as fits that do not separate the classes.
    n_separating : int
        Number of fits in which the motif separates the classes of unseen graphs (p <= 0.05 each).
    p_value : float
        Combined over the fits and adjusted for the number of different motifs.
    effect : Effect
        Of the motif's contribution to the margin, mean over fits.
    shape : Agreement or None
        Mean cosine of the patterns between fits, beside that of as many patterns with shuffled edges; None for fewer
        than three fits.
    n_graphs, n_carriers : list of int (n_classes,)
        Unseen graphs of each class, and those that carry the motif: the distance of their best window is at most a
        threshold that was fitted to the training graphs.
    favours : int
        The class with the largest share of carriers.
    region_shares : list of float (n_nodes,)
        Share of the carriers in which the node is part of the motif.
    carriers : list of Carrier
        The clearest first.
    verdict : {"stable", "not stable", "not assessed"}
    sentence : str
        The verdict with its reasons.
    """

    motif: int
    matrix: list[list[float]]
    learned: list[list[float]]
    unit: str
    n_members: int
    importance: float
    n_fits: int
    n_left_out: int
    n_without: int
    n_separating: int
    p_value: float
    effect: Effect
    shape: Agreement | None
    n_graphs: list[int]
    n_carriers: list[int]
    favours: int
    region_shares: list[float]
    carriers: list[Carrier]
    verdict: str
    sentence: str
