"""The highest rates of the device on random data; see `rates.py`."""

from rates import Sizes, measures

from stages import Rows, run, the_device

SMALL = Sizes(copy=1 << 12, side=64, loops=2, repeats=1)
FAR = 1e-2  # gap of a product that is wrong, in any precision


def work(rows: Rows) -> None:
    """Measure each ceiling; one that fails does not keep the others."""
    device = the_device(rows)
    for unit, measure in measures(device, SMALL if rows.emulate else Sizes()).items():
        with rows.attempt(unit):
            found = measure()
            rows.add(unit, **found)
            rows.failed |= not found.get("gap", 0.0) <= FAR


if __name__ == "__main__":
    run(work)
