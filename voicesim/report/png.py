"""A figure as the bytes of a PNG, drawn without a display."""

import io

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure


def png(figure: Figure, dpi: int) -> bytes:
    """The same figure gives the same bytes."""
    FigureCanvasAgg(figure)
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=dpi)
    return content.getvalue()
