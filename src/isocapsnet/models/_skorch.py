"""skorch without PyTorch Geometric: imported before everything else that imports skorch.

skorch imports PyTorch Geometric wherever it is installed, and with it torch's compiler: 100 MB and seconds in every
process that trains a network, to recognise a type of data that we never hand it. Whoever does hand it such data has
imported PyTorch Geometric, and is recognised as before.
"""

import sys
from typing import Any

if "skorch" not in sys.modules and "torch_geometric" not in sys.modules:
    sys.modules["torch_geometric"] = None  # type: ignore[assignment]  # Python's sign for "cannot be imported"
    try:
        from skorch import utils
    finally:
        del sys.modules["torch_geometric"]
    _is_geometric = getattr(utils, "is_geometric_data_type", None)

    def _is_geometric_if_loaded(x: Any) -> bool:
        return "torch_geometric" in sys.modules and _is_geometric is not None and _is_geometric(x)

    # A skorch without this name of its own works as well, and may import more than we need.
    if _is_geometric is not None:
        utils.is_geometric_data_type = _is_geometric_if_loaded
        utils.TORCH_GEOMETRIC_INSTALLED = True
