"""Rows of README.md's table of experiments with neural methods."""

from __future__ import annotations

from hopfed.experiments._row import Row

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
        "the same on {config/examples} images of CIFAR-100 by pachinko, {config/rounds} rounds",
        "Standalone {methods/standalone/test|1 % mean}, FedAvg {methods/fedavg/test|1 %}, kNN-Per "
        "{methods/knn-per/test|1 %}, label prior alone {methods/fedavg-prior/test|1 %}",
        preset="default",
        setting="3 seeds",
        part="cifar100",
    ),
    Row(
        "knnper",
        "the next character of Shakespeare at {config/clients} speakers, an LSTM of 64 units, "
        "{config/rounds} rounds; points over FedAvg",
        "FedAvg {methods/fedavg/test|1 %}, kNN-Per {methods/knn-per/gain|1 % +}, prior of "
        "characters alone {methods/fedavg-prior/gain|1 % +}. No gain; what kNN-Per loses is lost "
        "by speakers with few validation examples, who choose its weight by them",
        preset="default",
        setting="3 seeds",
        part="shakespeare",
    ),
)
