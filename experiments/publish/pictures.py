"""The pictures of figures/gallery: names, commands that make them, and captions.

Every command can be typed without change in an empty folder; the last one writes ``NAME.png``. With
the chosen presets a picture takes at most about two minutes.
"""

from __future__ import annotations

from dataclasses import dataclass

SILHOUETTES = "caltech101_silhouettes_28.npz"

_PARTITION = (
    "from hopfed.neural.data import load, partition; from hopfed.figures import save; "
    "from hopfed.figures.partition import draw; "
    "save(draw(partition('dirichlet:0.3', load('digits'), 12)), 'partition.png')"
)


@dataclass(frozen=True)
class Picture:
    """One picture.

    Attributes
    ----------
    name : name of the file, and title.
    caption : description of the contents.
    commands : commands that make the picture; the last one writes NAME.png.
    experiment, preset : experiment and preset whose settings it depends on; empty for none.
    data : file below `HOPFED_DATA` for the first command's ``--set data=``, if the file exists.
    """

    name: str
    caption: str
    commands: tuple[str, ...]
    experiment: str = ""
    preset: str = ""
    data: str = ""


def _of(name: str, preset: str, caption: str, data: str = "") -> Picture:
    """Return the picture of an experiment."""
    commands = (
        f"hopfed run {name} --preset {preset} --out {name}.h5",
        f"hopfed figure {name}.h5 --out {name}.png",
    )
    return Picture(name, caption, commands, name, preset, data)


def _fl_runs(*methods: str) -> tuple[str, ...]:
    shared = "--partition dirichlet:0.3 --rounds 15 --seeds 2"
    runs = [f"hopfed fl run {m} {shared} --out {m}.h5" for m in methods]
    return (*runs, f"hopfed figure {' '.join(f'{m}.h5' for m in methods)} --out fl.png")


_WINES = (
    "from hopfed.experiments.worked import spreadsheet; import hopfed; spreadsheet.write_table(); "
    "table = hopfed.read_table('wines.csv', ignore=['grower'], binarize='median'); "
    "hopfed.recover(table).plot(path='wines.png')"
)

PICTURES = (
    Picture(
        "wines",
        "Four types of 178 real wines, recovered from 13 measurements cut at their medians: how "
        "often each measurement is above its median in each type.",
        (f'python -c "{_WINES}"',),
    ),
    Picture(
        "demo",
        "Above, 26 of the noisy examples, a quarter of all pixels flipped; below, the letters that "
        "five clients recover together without showing an example.",
        ("hopfed demo --figure demo.png",),
    ),
    Picture(
        "recover",
        "One recovery. Left: eigenvalues above the threshold are counted as archetypes. Right: "
        "each archetype's score lies where theory expects that of a true one. Below: the patterns.",
        (
            "python -m hopfed.experiments.worked.owners_files",
            "hopfed recover museum.npy school.csv club.npz --shape 28x28 --figure recover.png",
        ),
    ),
    Picture(
        "phase",
        "The part of an archetype that the leading eigenvectors hold, over its share of the "
        "examples and their quality. Left of the line nothing can be seen, whatever the method.",
        ("hopfed theory phase --N 400 --M 1600 --r 0.2,0.5 --figure phase.png",),
    ),
    Picture(
        "power",
        "How the chance to detect an archetype grows with the number of examples, for two shares.",
        ("hopfed theory plan --r 0.6 --N 1000 --exposure 0.05,0.01 --figure power.png",),
    ),
    Picture(
        "recall",
        "Damaged letters (a quarter of the pixels flipped, of three the upper half missing) and "
        "what a memory of the alphabet makes of them, sweep by sweep.",
        (
            "python -m hopfed.experiments.worked.woven_letters",
            "hopfed store letters.npy --out letters.h5",
            "hopfed recall letters.h5 damaged.npy --free --shape 32x32 --figure recall.png",
        ),
    ),
    Picture(
        "mixture",
        "The majority of three patterns, taken apart: three layers start at it and push each other "
        "to different patterns while they cool.",
        (
            "python -m hopfed.experiments.worked.woven_letters",
            "hopfed store woven.npy --out woven.h5 --rule layered",
            "hopfed recall woven.h5 mixture.npy --temperature 0.1:0 --shape 48x48 "
            "--figure mixture.png",
        ),
    ),
    Picture(
        "storage",
        "How much an associative memory retrieves at which load, by Hebb's rule (t = 0) and after "
        "dreaming (t = 1); below, where Hebb's rule retrieves at which temperature.",
        ("hopfed theory capacity --t 0,1 --figure storage.png",),
    ),
    _of(
        "bbp",
        "default",
        "Above: eigenvalues (circles, filled where the test sees them) on their predictions "
        "(crosses). Below: measured outliers and overlaps lie on the diagonal for the finite-size "
        "formulas, and off it for the plain ones.",
    ),
    _of(
        "mp",
        "quick",
        "Above: spectra of pure noise on the Marchenko-Pastur law. Below: how often each rule sees "
        "something in noise, against the rate it was asked for.",
    ),
    _of(
        "concentration",
        "default",
        "The operator's distance from its mean falls as one over the root of M, and stays below "
        "the proved bounds.",
    ),
    _of(
        "isotropic",
        "default",
        "Above: errors of the isotropic law and of the decoupling of archetypes, over the sites. "
        "Below: what overlaps of archetypes do, and how far the bulk leaves its edges, with the "
        "fitted band (lines).",
    ),
    _of(
        "exposure",
        "default",
        "Pictures as archetypes: the overlap of each with its pattern over its share of the "
        "examples (lines: foreseen), its estimated share, and the mean overlap as shares become "
        "unequal.",
        data="mnist.npz",
    ),
    _of(
        "heavy_tails",
        "quick",
        "Under heavy tails the covariance has many eigenvalues above the edge; Tyler's shape "
        "matrix keeps the three that are true.",
    ),
    _of(
        "correlated_noise",
        "quick",
        "Coloured noise widens the bulk beyond the classical edge; the generalised edge follows "
        "it, and counts what theory foresees.",
    ),
    _of(
        "load",
        "quick",
        "Part of the archetypes found, and seconds, as their number grows: several operators "
        "(groups) carry further than one.",
    ),
    _of(
        "capacity",
        "quick",
        "Above: overlap of recalled patterns over the load, beside the laws of four rules, and "
        "how many cues the exponential rule returns. Below: what share of flipped sites each rule "
        "repairs, by kind of patterns.",
        data=SILHOUETTES,
    ),
    _of(
        "disentangle",
        "quick",
        "Share of starts in which layers take a mixture apart: over repulsion and stored patterns, "
        "temperature, or layers; by schedule of noise and by graph. White lines: half of them.",
    ),
    _of(
        "completion",
        "quick",
        "Right entries over the share that is masked: stored patterns by rule (left, middle), and "
        "rows of a table that were not stored (right): graded archetypes come near the truth.",
        data=SILHOUETTES,
    ),
    _of(
        "plan",
        "default",
        "Studies of the planned size: how often each archetype is seen, all are counted, and all "
        "are resolved, beside the promised power (line) and two binomial errors (band).",
    ),
    _of(
        "tables",
        "default",
        "Real tables, rows that were not seen: likelihood over that of latent class analysis, "
        "masked entries that are right, and seconds, for one owner, several owners, and other "
        "methods on pooled data.",
    ),
    _of(
        "scale",
        "quick",
        "Seconds, memory and bytes sent as the larger side of the data grows, beside what a dense "
        "operator takes (dotted).",
    ),
    _of(
        "attacker",
        "quick",
        "Weights of good clients and of attackers under three rules, where attackers are most: "
        "the structure rule brings an attacker's weight to zero, the others' to a half.",
    ),
    _of(
        "drift",
        "quick",
        "Exposures drift (first panel) and a memory has to follow: no plasticity never learns, "
        "full plasticity forgets, adaptive weights with archetypes kept apart do neither.",
    ),
    _of(
        "privacy",
        "quick",
        "Archetypes counted and recovered, and the quality of each, as the privacy budget epsilon "
        "grows; the lines are predictions, the points draws.",
    ),
    _of(
        "ablation",
        "quick",
        "What is retrieved (up) and falsely reported (down) when an ingredient of the factoriser "
        "is left out: the two that matter most.",
    ),
    _of(
        "structured",
        "quick",
        "Pictures, noisy examples of them, and what three owners hold after one round and at the "
        "end; red pixels are wrong. Right: the worst picture of each set over rounds, also at a "
        "higher quality.",
        data=SILHOUETTES,
    ),
    _of(
        "cooperation",
        "quick",
        "Clients alone and together, beside theory, in the three federations that see least: "
        "those that can see nothing by themselves see everything together.",
    ),
    _of(
        "novelty",
        "quick",
        "New archetypes appear halfway. Above: the count reacts in the round that theory foresees. "
        "Below: how many rounds later they are remembered.",
    ),
    _of(
        "participation",
        "quick",
        "Whether an archetype is seen depends on how many examples have come in, not on who sent "
        "them or when: detection against its prediction, and what it costs.",
    ),
    _of(
        "byzantine",
        "quick",
        "False patterns that liars get broadcast under each defence, and what a defence costs an "
        "honest rare archetype. Below: when a lie is counted, when half of the groups support it, "
        "and how well each score tells it from the rare archetype.",
    ),
    Picture(
        "partition",
        "Digits divided over twelve clients by a Dirichlet law: how many examples each has, and of "
        "which classes.",
        (f'python -c "{_PARTITION}"',),
    ),
    Picture(
        "fl",
        "Four methods: accuracy over rounds, over bytes, over FLOPs, and over clients.",
        _fl_runs("standalone", "fedavg", "fedavg+", "fedprox"),
    ),
    _of(
        "sohip",
        "quick",
        "SoHip among its baselines and controls: accuracy over rounds and cost, gains over "
        "Standalone paired by seed, and every client (`hopfed list sohip` names the methods).",
    ),
    _of(
        "fedssa",
        "quick",
        "FedSSA among methods for clients with different models, read as the picture of SoHip.",
    ),
    _of(
        "fedh2l",
        "quick",
        "Accuracy on all domains on the way and at the end, and who is right on whose domain.",
    ),
    _of(
        "knnper",
        "quick",
        "kNN-Per among its baselines: accuracy over rounds and cost, gains over FedAvg, and every "
        "client.",
    ),
    _of(
        "oneshot",
        "quick",
        "One exchange of operators against rounds of training, gains over the same read-out of a "
        "client's own examples.",
    ),
    Picture(
        "same_bits",
        "Other methods on the bits of the read-out, digits at ten clients: labels by Dirichlet "
        "laws, and images rotated by client.",
        (
            "hopfed run oneshot --preset bits --out bits.h5",
            "hopfed figure bits.h5 --out same_bits.png",
        ),
        "oneshot",
        "bits",
    ),
)
