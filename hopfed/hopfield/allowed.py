"""What a server may send to a client of a Hopfield federation as its method.

This is what `hopfed serve` sends, and nothing beside it: whatever else a recipe names is refused.
A search (`hopfed.archetypes.annealed_search`) runs at the server, so that no client needs its
settings.
"""

from __future__ import annotations

from math import inf

from hopfed.archetypes.factorize import METHODS
from hopfed.federation.recipes import Allowed, made, one_of, real, whole
from hopfed.hopfield.batches import Elsewhere
from hopfed.hopfield.encoding import FORMS, Encoding
from hopfed.hopfield.graded.client import CLASSES
from hopfed.hopfield.graded.method import GradedFederation
from hopfed.hopfield.graded.private import PrivateClasses
from hopfed.hopfield.headers import Headers
from hopfed.hopfield.memory.blending import MEMORIES
from hopfed.hopfield.method import HopfieldFederation
from hopfed.hopfield.noisy import PrivateFederation
from hopfed.hopfield.plasticity.agreement import REFERENCES
from hopfed.hopfield.plasticity.rules import Agreement, Entropy, Fixed, Smoothing, Structure
from hopfed.hopfield.robust import KINDS, Robust
from hopfed.hopfield.settings import WEIGHTINGS

SITES = whole(2, 2**24)
PAIRED = whole(2, 2**16)  # whose pairs can be released: of more, finding the noise takes long
NOISY = whole(2, 2**11)  # whose pairs are released class by class
TRUTH = one_of(True, False)
SHARE = real(0, 1)

ALLOWED = Allowed(
    {
        HopfieldFederation: {
            "source": made(Elsewhere),
            "encoding": made(Encoding),
            "rule": made(Fixed, Entropy, Agreement, Structure),
            "smoothing": made(Smoothing),
            "memory": one_of(*MEMORIES),
            "discount": SHARE,
            "weighting": one_of(*WEIGHTINGS),
            "alpha": SHARE,
            "groups": whole(0, 2**20),
            "votes": TRUTH,
            "robust": made(Robust),
            "claim": real(1, inf),
            "liars": real(0, 0.5),
            "support": real(0, inf),
            "check": TRUTH,
            "persistence": whole(1),
            "patience": whole(1),
            "quorum": SHARE,
            "client_groups": whole(1),
            "level": real(0, inf),
            "search": one_of(None),
            "factoriser": one_of(*METHODS),
        },
        PrivateFederation: {
            "source": made(Elsewhere),
            "n_sites": PAIRED,
            "epsilon": real(0, 1e9),
            "delta": SHARE,
            "alpha": SHARE,
            "secret": whole(0, 0),
            "support": real(0, inf),
            "claim": real(1, inf),
            "liars": real(0, 0.5),
            "level": real(0, inf),
        },
        GradedFederation: {
            "source": made(Elsewhere),
            "n_sites": SITES,
            "discount": SHARE,
            "steps": whole(1, 1000),
            "looks": whole(0, 1000),
            "products": whole(1, 1000),
            "alpha": SHARE,
            "patience": whole(1),
            "most": whole(1, CLASSES),
            "influence": SHARE,
            "claim": real(1, inf),
            "liars": real(0, 0.5),
            "support": real(0, inf),
        },
        PrivateClasses: {
            "source": made(Elsewhere),
            "n_sites": NOISY,
            "epsilon": real(0, 1e9),
            "delta": SHARE,
            "discount": SHARE,
            "looks": whole(1, 100),
            "steps": whole(1, 100),
            "most": whole(1, CLASSES),
            "claim": real(1, inf),
            "liars": real(0, 0.5),
            "support": real(0, inf),
            "secret": whole(0, 0),
        },
        Headers: {},
        Elsewhere: {"rounds": whole(1)},
        Encoding: {
            "n_sites": SITES,
            "form": one_of(*FORMS),
            "width": whole(1, 2**24),
        },
        Robust: {"kind": one_of(*KINDS), "share": SHARE},
        Smoothing: {"ema": SHARE, "limit": real(0, inf), "momentum": SHARE, "modulated": TRUTH},
        Fixed: {"weight": SHARE},
        Entropy: {"floor": one_of(*REFERENCES)},
        Agreement: {"reference": one_of(*REFERENCES)},
        Structure: {"rest": SHARE, "alpha": SHARE},
    }
)
