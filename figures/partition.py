"""The figure of a partition: number of examples of every client, by class."""

from typing import Any

from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

from hopfed.figures.style import escape_dollars, new_figure, use_style

NAMED = 20  # largest number of classes or clients with names; more of them get numbers


@use_style()
def draw(partition: Any) -> Figure:
    """Draw a partition: the number of examples of every client, by class."""
    counts, classes = partition.counts(), partition.dataset.class_names
    figure = new_figure(170, min(max(4 * len(classes), 25), 80) + 20)
    axes = figure.subplots()
    norm = PowerNorm(0.5, vmin=0, vmax=max(counts.max(), 1))
    mesh = axes.imshow(counts.T, cmap="Blues", norm=norm, aspect="auto", interpolation="none")
    figure.colorbar(mesh, ax=axes, label="examples", pad=0.01)
    for name, names in (("y", classes), ("x", partition.names)):
        if len(names) <= NAMED:
            shown = [name if len(name) <= 18 else name[:17] + "…" for name in names]
            getattr(axes, f"set_{name}ticks")(range(len(names)), [escape_dollars(s) for s in shown])
    unused = f", {partition.unused:,} unused" if partition.unused else ""
    title = f"{partition.dataset.name}, {partition.scheme}, {len(counts)} clients{unused}"
    axes.set(xlabel="client", ylabel="class", title=escape_dollars(title))
    return figure
