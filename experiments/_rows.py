"""Rows of README.md's table of experiments of the Hopfield federation and of theory."""

from __future__ import annotations

from hopfed.experiments._row import Row

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
