"""Rows of the two tables of experiments in README.md, filled in by `hopfed.experiments.readme`.

`claim` and `ours` are templates over the kept summary of the experiment (see `_quote`). A row whose
summary is not there yet is left out, or stands as it was `typed` by hand; a test says so when the
summary has come and the typed words must go.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from hopfed.config import describe, to_plain
from hopfed.experiments import find
from hopfed.experiments._quote import fill, number
from hopfed.experiments._summaries import Summary, read


@dataclass(frozen=True)
class Row:
    """One row.

    Attributes
    ----------
    name : of the experiment.
    claim : what is claimed, or asked.
    ours : what came out.
    paper, aim : what the paper reports and what this project set out to reach.
    preset : that was run.
    setting : said behind the command.
    part : behind the name of the kept summary, of a run beside that of the preset.
    typed : the cells "ours" and "minutes" written by hand, until there is a summary.
    """

    name: str
    claim: str
    ours: str
    paper: str = "-"
    aim: str = "-"
    preset: str = "paper"
    setting: str = ""
    part: str = ""
    typed: tuple[str, str] | None = None

    def summary(self) -> Summary | None:
        """What is kept of its run."""
        return read(f"{self.name}_{self.part}" if self.part else self.name)

    def cells(self) -> tuple[str, str, str, str] | None:
        """Command, claim, "ours" and minutes; None while nothing is known."""
        kept = self.summary()
        if kept is not None:
            claim, ours = (fill(text, kept) for text in (self.claim, self.ours))
            return self._command(kept), claim, ours, self._minutes(kept)
        if self.typed is not None:
            return self._command(None), self.claim, *self.typed
        return None

    def _command(self, kept: Summary | None) -> str:
        """The command, with what is not as in the preset."""
        words = f"hopfed run {self.name}"
        if kept is not None:
            preset = to_plain(find(self.name).PRESETS[self.preset])
            changed = {k: v for k, v in kept["config"].items() if preset.get(k) != v}
            if "seeds" in changed:
                words += f" --seeds {changed.pop('seeds')}"
            for name, value in changed.items():
                text = f"{name}={'FILE' if str(value).endswith('.npz') else describe(value)}"
                words += f" --set {shlex.quote(text)}"
        return f"`{words}`" + (f" ({self.setting})" if self.setting else "")

    def _minutes(self, kept: Summary) -> str:
        if "minutes" in kept:
            return number(kept["minutes"], 0 if kept["minutes"] >= 10 else 1)
        return f"about {find(self.name).RECORD.minutes[self.preset]:g}"


EXPERIMENTS = (
    Row(
        "bbp",
        "outliers follow the BBP formulas: R^2 over draws, worst archetype (Fig. 5)",
        "{r2_lowest|4}; pooled {r2_pooled|4 mean} (plain formula: {r2_lowest_plain|2 mean}; "
        "{r2_pooled_plain|3 mean})",
        ".955-.977, pooled",
        ">= .98",
    ),
    Row(
        "bbp",
        "overlaps follow them: median gap",
        "{gap|5} (plain: {gap_plain|3 mean})",
        ".0163",
        "<= .003",
    ),
    Row(
        "mp",
        "noise spectra follow Marchenko-Pastur: Kolmogorov distance at N = {config/N}",
        "{distance_signs|4} (+-1), {distance_gaussian|4} (Gaussian)",
    ),
    Row(
        "mp",
        "false alarms of the Tracy-Widom count on {nulls} nulls at 5% / 1%",
        "+-1: {rates/tw_signs_0.05|1 % range}% / {rates/tw_signs_0.01|1 % range}%; Gaussian: "
        "{rates/tw_gaussian_0.05|1 % range}% / {rates/tw_gaussian_0.01|1 % range}%",
        aim="5% / 1%",
    ),
    Row(
        "concentration",
        "the operator concentrates as M^(-1/2), within the explicit bound (Thm 1)",
        "slope {slope|3}; {exceeded|1 %}% of the draws above the 5% bound, which is "
        "{tightest|1 mean} to {loosest|1 mean} times the deviation",
        "-1/2",
        "-.5; <= 5%",
    ),
    Row(
        "heavy_tails",
        "Student-t noise: archetypes counted from the covariance / from Tyler's shape, true 3",
        "{sample_heaviest|1} / {tyler_heaviest|2} at the heaviest tail (all settings: "
        "{sample|0 mean} / {tyler|3 mean})",
        "15.1 / 2.6",
        "3",
    ),
    Row(
        "correlated_noise",
        "coloured noise: false archetypes by the classical / generalised edge",
        "{false_classical|1} / {false_generalised|3 mean}",
        "17.5 / 0",
        "0",
    ),
    Row(
        "correlated_noise",
        "counted where theory predicts 3 of 3: generalised / whitened",
        "{kept_generalised|2} / {kept_whitened|2}",
        "1.3 / -",
        "3",
    ),
    Row(
        "load",
        "largest K recovered completely at N = 1,000, M = 10,000, r = .8, five seeds of five "
        "(default preset): one operator / ten groups",
        "{most_one_operator} / {most_ten_groups} (at N = 400, the better of them: {most_at_400}); "
        "{false_discoveries} false",
        "below 6 at N = 400",
        "140, then 200 / 300, then 500",
        preset="default",
    ),
    Row(
        "scale",
        "time and memory of a recovery as sites and examples grow, {config/archetypes} archetypes: "
        "N to 1,000,000 at M = 2,000, and M to 100,000 at N = 10,000",
        "all found, {false_discoveries} false; the slowest {seconds_longest|1} s, most "
        "{peak_largest|2} GB, sent at most {sent_largest|1 %}% of a dense operator",
        aim="8 GB",
    ),
    Row(
        "attacker",
        "an attacker's largest weight in the last round: entropy rule / agreement / ours (Fig. 6)",
        "{attacker/entropy|3} / {attacker/agreement|3} / {attacker/structure|3}; ours: lowest m "
        "{magnetisation/structure|3}; most false in a round: entropy rule "
        "{false/entropy}, ours {false/structure}",
        "0 (entropy rule)",
        "< .05",
    ),
    Row(
        "drift",
        "drifting exposures, what is kept at the end of all ever detectable: w = 0 / w = 1 / "
        "entropy rule / ours (Fig. 7)",
        "{kept/w = 0|2 mean} / {kept/w = 1|2 mean} / {kept/entropy|3} / {kept/kept apart|3}, "
        "lowest m {lowest/kept apart|3}; most false in a round {false/kept apart}",
        "fails / forgets / keeps",
        "m >= .99",
    ),
    Row(
        "novelty",
        "new archetypes remembered at most a round after theory foresees them: equal / rare "
        "shares; rare, one example a round (Fig. 8)",
        "{within_one/equal/carried|3} / {within_one/rare/carried|3}; "
        "{within_one/scarce/carried|3 mean} carried, {within_one/scarce/fresh|3 mean} fresh: not "
        "reached; counted in the round foreseen {counted|3}, counted before {early|3 mean}",
        "a few rounds",
        "1",
    ),
    Row(
        "byzantine",
        "false patterns broadcast in a round, spike fixed / wandering: no defence; persistence; "
        "agreement; both; median",
        "{false/fixed/none|2 mean} / {false/wandering/none|1 mean}; "
        "{false/fixed/persistence|2 mean} / {false/wandering/persistence|2 mean}; "
        "{false/fixed/agreement|2 mean} / {false/wandering/agreement|2 mean}; "
        "{false/fixed/both|2 mean} / {false/wandering/both|2 mean}; "
        "{false/fixed/median|2 mean} / {false/wandering/median|2 mean}; part of archetypes kept "
        "{kept/both|2 mean}; one that {config/few} of {config/clients} clients see comes "
        '{rare_delay/both|1} rounds late under "both", in {rare/both|0 % mean}% of the seeds',
        aim="0",
    ),
    Row(
        "structured",
        "silhouettes, {config/examples} examples, three owners: m of 3 / 13 / 25 (Figs. 9-10)",
        "r = .6: {m/3, r=0.6|3 mean} / {m/13, r=0.6|3 mean} / {m/25, r=0.6|3 mean}, exact after "
        "{rounds/3, r=0.6|1 mean} / {rounds/13, r=0.6|1 mean} / {rounds/25, r=0.6|1} rounds; "
        "r = .8: {m/3, r=0.8|3 mean} / {m/13, r=0.8|3 mean} / {m/25, r=0.8|3 mean}, "
        "{rounds/3, r=0.8|1 mean} / {rounds/13, r=0.8|1 mean} / {rounds/25, r=0.8|1 mean}; "
        "most false in a round {false_ever}, in the last {false_last}",
        "above .9 at .8, less at .6",
        "1",
    ),
    Row(
        "cooperation",
        "24 owners at r = .08, none of whom can see anything: m alone / together at the end",
        "{last_alone/24 of 0.08|3 mean} / {last_fixed/24 of 0.08|3} (theory "
        "{last_foreseen/24 of 0.08|3}); most false at the end {false_fixed/24 of 0.08}",
        aim="theory",
    ),
    Row(
        "participation",
        "10-100% of clients, half of them late: decisions as foreseen, beyond / within 2 sd of "
        "the level",
        "{agree|4 mean} / {agree_within|2 mean}; first seen within a round of the forecast "
        "{on_time|3}",
        aim="1",
    ),
    Row(
        "privacy",
        "archetypes counted (foreseen) at epsilon = .5 / 1 / 2 / 4, five hidden",
        "{khat_0.5|2 mean} ({khat_0.5_foreseen|2}) / {khat_1|2 mean} ({khat_1_foreseen|2}) / "
        "{khat_2|2 mean} ({khat_2_foreseen|2}) / {khat_4|2 mean} ({khat_4_foreseen|2}); overlap "
        "gap {overlap_gap|4 mean}",
        aim="<= .01",
    ),
    Row(
        "ablation",
        "part of all archetypes lost without: LAM / deflation / sharpening / disturbing what "
        "rests; gained by repulsion in the paper's LAM",
        "{lost_no_lam|2 mean} / {lost_no_deflation|2 mean} / {lost_no_sharpening|3 mean} / "
        "{lost_no_return|3 mean}; {gain_paper|3}",
    ),
)

NEURAL = (
    Row(
        "fedssa",
        "does averaging header rows by class help? Points over Standalone at the end / at round "
        "{config/early}, +- standard error",
        "FedSSA {methods/fedssa/gain|2 % +} / {methods/fedssa/early_gain|2 % +}; LG-FedAvg "
        "{methods/lg-fedavg/gain|2 % +} / {methods/lg-fedavg/early_gain|2 % +}; FedClassAvg "
        "{methods/fedclassavg/gain|2 % +} / {methods/fedclassavg/early_gain|2 % +}. The paper's "
        "lead does not come out",
        preset="default",
        setting="MNIST, 10 clients of 4 classes, CNN-3 to 5, 5 seeds",
    ),
    Row(
        "fedssa",
        "the same at other partitions and participations: 2 / 8 classes a client; Dirichlet(.1) / "
        "(.5); a fifth / half of the clients a round",
        "FedSSA {classes/fedssa/2/gain|2 % +} / {classes/fedssa/8/gain|2 % +}; "
        "{dirichlet/fedssa/0.1/gain|2 % +} / {dirichlet/fedssa/0.5/gain|2 % +}; "
        "{participation/fedssa/0.2/gain|2 % +} / {participation/fedssa/0.5/gain|2 % +}. LG-FedAvg "
        "{classes/lg-fedavg/2/gain|2 % +} / {classes/lg-fedavg/8/gain|2 % +}; "
        "{dirichlet/lg-fedavg/0.1/gain|2 % +} / {dirichlet/lg-fedavg/0.5/gain|2 % +}; "
        "{participation/lg-fedavg/0.2/gain|2 % +} / {participation/lg-fedavg/0.5/gain|2 % +}",
        preset="default",
        setting="5 seeds",
        part="sweeps",
    ),
    Row(
        "sohip",
        "does a shared memory of {config/m} numbers help? Points over Standalone",
        "SoHip {methods/sohip/gain|2 % +}, without collective memory "
        "{methods/sohip not collective/gain|2 % +}, a learned bias alone "
        "{methods/standalone-bias/gain|2 % +}: the paper's gain does not come out, and its memory "
        "is a logit offset at test time. Ours, recalled by the sample: "
        "{methods/ours: by sample/gain|2 % +}; FedProto {methods/fedproto/gain|2 % +}",
        preset="default",
        setting="digits, 10 clients of 4 classes, CNN-3 to 5, 6 seeds",
    ),
    Row(
        "sohip",
        "the same at other partitions, participations and learning rates",
        "SoHip {classes/sohip/2/gain|2 % +} at 2 classes a client, {classes/sohip/8/gain|2 % +} "
        "at 8, {dirichlet/sohip/0.1/gain|2 % +} at Dirichlet(.1), {dirichlet/sohip/0.5/gain|2 % +} "
        "at .5, {participation/sohip/0.2/gain|2 % +} with a fifth of the clients, "
        "{learning rate/sohip/0.03/gain|2 % +} at three times the rate; of 11 settings one is two "
        "errors above 0 ({learning rate/sohip/0.003/gain|2 % +}, a third of the rate). FedMRL "
        "{classes/fedmrl/8/gain|2 % +} at 8 classes, {participation/fedmrl/0.2/gain|2 % +} with a "
        "fifth",
        preset="default",
        setting="5 seeds",
        part="sweeps",
    ),
    Row(
        "sohip",
        "the same on CIFAR-100, a part of the paper's scale: 10 of its 100 classes and 500 images "
        "at each of {config/clients} clients, half of them a round, {config/rounds} rounds",
        "Standalone {methods/standalone/test|1 %}%; SoHip {methods/sohip/gain|2 % +}, a learned "
        "bias alone {methods/standalone-bias/gain|2 % +}, FedMRL {methods/fedmrl/gain|2 % +}, "
        "ours, recalled by the sample, {methods/ours: by sample/gain|2 % +} (paper, 100 clients, "
        "500 rounds: Standalone 53.6, SoHip 63.3, FedMRL 60.3)",
        preset="default",
        setting="3 seeds",
        part="cifar100",
    ),
    Row(
        "fedh2l",
        "do predictions on public images carry over domains? ACC / CDP",
        "IND {methods/ind/acc|1 % mean} / {methods/ind/cdp|1 % mean}, AGG "
        "{methods/agg/acc|1 % mean} / {methods/agg/cdp|1 % mean}, at equal images "
        "{methods/agg equal images/acc|1 % mean} / {methods/agg equal images/cdp|1 % mean}, "
        "FedH2L {methods/fedh2l/acc|1 % mean} / {methods/fedh2l/cdp|1 % mean} (paper, 10,000 "
        "rounds: 68.5, 85.3, -, 89.1 ACC), FedMD {methods/fedmd/acc|1 % mean} / "
        "{methods/fedmd/cdp|1 % mean}; at equal images FedH2L's lead over AGG "
        "halves, to {methods/fedh2l/gain|2 % +}, and FedMD is above it",
        preset="default",
        setting="Rotated MNIST, alpha = 10%, 500 rounds",
    ),
    Row(
        "fedh2l",
        "which of its parts matter, and how much is shared? ACC after {config/rounds} rounds",
        "FedH2L {methods/fedh2l/acc|1 %}; without KL {variants/no KL/acc|1 % mean}, without "
        "projection {variants/no projection/acc|1 % mean}, PCGrad {variants/PCGrad/acc|1 % mean}, "
        "unlabelled {variants/unlabelled/acc|1 % mean}, random pairs "
        "{variants/random pairs/acc|1 % mean}. At alpha = 5% / 10% / 15% FedH2L "
        "{alpha/fedh2l/0.05/acc|1 % mean} / {methods/fedh2l/acc|1 % mean} / "
        "{alpha/fedh2l/0.15/acc|1 % mean}, AGG at equal images "
        "{alpha/agg equal images/0.05/acc|1 % mean} / {methods/agg equal images/acc|1 % mean} / "
        "{alpha/agg equal images/0.15/acc|1 % mean}",
        preset="default",
        setting="3 seeds",
        part="parts",
    ),
    Row(
        "fedh2l",
        "local steps a round, E = 1 / 5 / 10: ACC after {config/rounds} rounds; WDP",
        "{methods/fedh2l/acc|1 %} / {local steps/fedh2l/5/acc|1 %} / "
        "{local steps/fedh2l/10/acc|1 %}; {methods/fedh2l/wdp|1 % mean} / "
        "{local steps/fedh2l/5/wdp|1 % mean} / {local steps/fedh2l/10/wdp|1 % mean}. AGG at equal "
        "images {methods/agg equal images/acc|1 %}",
        preset="default",
        setting="3 seeds",
        part="steps",
    ),
    Row(
        "fedh2l",
        "the same on PACS at 64 x 64, LeNet from scratch, {config/rounds} rounds: ACC / WDP / CDP",
        "IND {methods/ind/acc|1 %} / {methods/ind/wdp|1 % mean} / {methods/ind/cdp|1 % mean}, AGG "
        "at equal images {methods/agg equal images/acc|1 %} / "
        "{methods/agg equal images/wdp|1 % mean} / {methods/agg equal images/cdp|1 % mean}, FedH2L "
        "{methods/fedh2l/acc|1 %} / {methods/fedh2l/wdp|1 % mean} / "
        "{methods/fedh2l/cdp|1 % mean}: better across domains, worse within",
        preset="default",
        setting="3 seeds",
        part="pacs",
    ),
    Row(
        "knnper",
        "what do neighbours add to a global model?",
        "FedAvg {methods/fedavg/test|1 %}, kNN-Per {methods/knn-per/test|1 %}, label prior alone "
        "{methods/fedavg-prior/test|1 %}; at concentration .1: "
        "{heterogeneity/fedavg/0.1/test|1 % mean}, {heterogeneity/knn-per/0.1/test|1 % mean}, "
        "{heterogeneity/fedavg-prior/0.1/test|1 % mean}; pFedGP is best, "
        "{methods/pfedgp/test|1 %}. With features shifted in place of labels (rotations): "
        "{feature shift/fedavg/test|1 % mean}, {feature shift/knn-per/test|1 % mean}, "
        "{feature shift/fedavg-prior/test|1 % mean}",
        preset="default",
        setting="digits, Dirichlet(.3), LeNet, 6 seeds",
    ),
    Row(
        "knnper",
        "the same on {config/examples} images of CIFAR-10, {config/rounds} rounds; points over "
        "FedAvg by concentration .1 / .3 / 1 / 10",
        "Standalone {methods/standalone/test|1 % mean}, FedAvg {methods/fedavg/test|1 %}, kNN-Per "
        "{methods/knn-per/test|1 %}, label prior alone {methods/fedavg-prior/test|1 %}. kNN-Per "
        "{heterogeneity/knn-per/0.1/gain|1 % +} / {methods/knn-per/gain|1 % +} / "
        "{heterogeneity/knn-per/1/gain|1 % +} / {heterogeneity/knn-per/10/gain|1 % +}, the prior "
        "{heterogeneity/fedavg-prior/0.1/gain|1 % + mean} / "
        "{methods/fedavg-prior/gain|1 % + mean} / "
        "{heterogeneity/fedavg-prior/1/gain|1 % + mean} / "
        "{heterogeneity/fedavg-prior/10/gain|1 % + mean}",
        preset="default",
        setting="3 seeds",
        part="cifar10",
    ),
    Row(
        "knnper",
        "the same with {config/clients} clients of one domain of PACS each, {config/examples} "
        "images at 64 x 64, {config/rounds} rounds; points over FedAvg",
        "Standalone {methods/standalone/test|1 % mean}, FedAvg {methods/fedavg/test|1 %}, kNN-Per "
        "{methods/knn-per/test|1 % mean}, {methods/knn-per/gain|1 % +}; Hopfield retrieval "
        "{methods/ours: hopfield/gain|1 % +}, label prior alone {methods/fedavg-prior/gain|1 % +}",
        preset="default",
        setting="3 seeds",
        part="pacs",
    ),
    Row(
        "knnper",
        "the next character of Shakespeare at {config/clients} speakers, an LSTM of 64 units, "
        "{config/rounds} rounds; points over FedAvg",
        "FedAvg {methods/fedavg/test|1 %}, kNN-Per {methods/knn-per/gain|1 % +}, prior of "
        "characters alone {methods/fedavg-prior/gain|1 % +}: no gain, as speakers with few "
        "validation examples choose a wrong weight by them",
        preset="default",
        setting="3 seeds",
        part="shakespeare",
    ),
)
