"""Our package first: it loads Flower without the warnings of what Flower is made of."""

import hopfed.federation.engines.flower  # noqa: F401
