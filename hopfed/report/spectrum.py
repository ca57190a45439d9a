"""Picture of a spectrum with its threshold, in the colours of the page."""

from __future__ import annotations

import numpy as np

MOST = 120  # eigenvalues in the picture
WIDTH, HEIGHT = 360, 190
LEFT, RIGHT, TOP, BOTTOM = 40, 8, 14, 30  # margins


def spectrum_picture(values: np.ndarray, threshold: float) -> str:
    """Return an SVG of leading eigenvalues by rank, on a logarithmic scale.

    Parameters
    ----------
    values : eigenvalues, descending; those that are not above 0 are left out.
    threshold : from which they count; NaN where it is not known.

    Examples
    --------
    >>> picture = spectrum_picture(np.array([9.0, 4.0, 1.0, 0.5]), 2.0)
    >>> picture.count('class="signal"'), picture.count('class="noise"'), "threshold 2" in picture
    (2, 2, True)
    """
    seen = np.asarray(values, np.float64)
    seen = seen[np.isfinite(seen) & (seen > 0)][:MOST]
    if not len(seen):
        return ""
    known = np.isfinite(threshold) and threshold > 0
    levels = np.log([*seen, threshold]) if known else np.log(seen)
    low, high = levels.min() - 0.1, levels.max() + 0.1
    across = (WIDTH - LEFT - RIGHT) / max(len(seen), 2)

    def height(x: float) -> float:
        return float(TOP + (high - np.log(x)) / (high - low) * (HEIGHT - TOP - BOTTOM))

    parts = [
        f'<line class="axis" x1="{LEFT}" y1="{TOP}" x2="{LEFT}" y2="{HEIGHT - BOTTOM}"/>'
        f'<line class="axis" x1="{LEFT}" y1="{HEIGHT - BOTTOM}" x2="{WIDTH - RIGHT}" '
        f'y2="{HEIGHT - BOTTOM}"/>'
    ]
    for i, x in enumerate(seen):
        kind = "signal" if known and x > threshold else "noise"
        at = LEFT + (i + 0.5) * across
        parts.append(f'<circle class="{kind}" cx="{at:.1f}" cy="{height(x):.1f}" r="3"/>')
    for x in dict.fromkeys((seen[0], seen[-1])):
        parts.append(f'<text class="end" x="{LEFT - 5}" y="{height(x) + 4:.1f}">{x:.3g}</text>')
    if known:
        at = height(threshold)
        parts.append(
            f'<line class="limit" x1="{LEFT}" y1="{at:.1f}" x2="{WIDTH - RIGHT}" y2="{at:.1f}"/>'
            f'<text class="end" x="{WIDTH - RIGHT}" y="{at - 4:.1f}">threshold {threshold:.3g}'
            "</text>"
        )
    words = f"eigenvalue by rank, 1 to {len(seen)}"
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text class="middle" x="{middle}" y="{HEIGHT - 8}">{words}</text>')
    return (
        f'<svg class="spectrum" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{words}">{"".join(parts)}</svg>'
    )
