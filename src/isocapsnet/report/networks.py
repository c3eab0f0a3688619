"""The table of the networks that the important edges of a method join."""

from typing import TYPE_CHECKING

from isocapsnet.report.evidence import Scene
from isocapsnet.report.tables import Cell, PageTable

if TYPE_CHECKING:
    from isocapsnet.explanation.summary import Explanation

_LISTED_PAIRS = 8
_COLUMNS = ("of the 100 strongest edges", "share of the attribution", "share of all edges")


def networks_table(explanation: "Explanation", scene: Scene) -> PageTable | None:
    """Pairs of networks with the largest share of the attribution; None if networks are not known."""
    pairs = explanation.network_table
    if pairs is None:
        return None
    rows = [
        [
            Cell(f"within {row['first']}" if row["first"] == row["second"] else f"{row['first']} – {row['second']}"),
            Cell(str(row["strongest"]), row["strongest"]),
            Cell(f"{row['share']:.1%}", row["share"]),
            Cell(f"{row['expected']:.1%}", row["expected"]),
        ]
        for row in pairs[pairs["share"] > 0].head(_LISTED_PAIRS).to_dict("records")
    ]
    caption = f"Networks that the important edges join{f' ({explanation.partition})' if explanation.partition else ''}"
    return PageTable(f"{scene.id}-networks", caption, ["networks", *_COLUMNS], rows, _COLUMNS, False)
