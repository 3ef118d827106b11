"""Plots of records: curves over logarithmic axes, with a line for linear growth."""

from __future__ import annotations

from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Curve:
    """Points joined by lines."""

    name: str
    amounts: list[int]
    values: list[float]


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves that share their axes."""

    quantity: str
    unit: str
    curves: list[Curve]


def write(file: Path, panels: list[Panel]) -> None:
    """Draw panels side by side, and write them as SVG, the same for the same numbers."""
    figure = Figure(figsize=(6 * len(panels), 4.5), layout="constrained")
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for curve in panel.curves:
            drawn = [(amount, value) for amount, value in zip(curve.amounts, curve.values, strict=True) if value > 0]
            (line,) = axes.plot(*zip(*drawn, strict=True), marker="o", markersize=3, label=curve.name)
            # Linear growth, through the last point.
            amounts = [drawn[0][0], drawn[-1][0]]
            values = [drawn[-1][1] * amount / drawn[-1][0] for amount in amounts]
            axes.plot(amounts, values, linestyle=":", linewidth=0.8, color=line.get_color())
        axes.set(xscale="log", yscale="log", xlabel=panel.quantity, ylabel=panel.unit)
        axes.grid(visible=True, linewidth=0.3)
        axes.legend(fontsize=8, title="dotted: in proportion", title_fontsize=8)
    drawing = StringIO()
    with mpl.rc_context({"svg.hashsalt": "pullquote"}):
        figure.savefig(drawing, format="svg", metadata={"Date": None})
    # matplotlib writes thousands of short lines.
    file.write_text(" ".join(drawing.getvalue().split("\n")), encoding="utf-8")
