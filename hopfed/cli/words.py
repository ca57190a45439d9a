"""Words of other tools, and what says the same here.

Of poLCA, StepMix, Mplus, scikit-learn, pandas, Flower, PFLlib and of commands in general. An answer
stands behind an option: it is given where the command has that option; behind no option, anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_COUNTED = (
    "leave it out; how many there are is counted from the rows "
    "(`hopfed theory plan` says how many rows show them)"
)
_SETTLED = "leave it out; every fit that is compared runs until it settles"
_FOUND = "leave it out; that is found from the file"
_THREADS = "the variables OMP_NUM_THREADS and NUMBA_NUM_THREADS set the number of threads"
_NO_PLAIN = "nothing is sent without TLS: `hopfed certs` makes the files for "

# Words -> {option: answer}; an empty answer is the option itself.
_OPTIONS: dict[str, dict[str, str]] = {
    "k g classes n-classes nclass nclasses num-classes class n-class clusters n-clusters nclusters "
    "num-clusters components n-components archetypes n-archetypes patterns n-patterns types "
    "n-types groups n-groups states n-states rank": {
        "--K": "",
        "--partition": "--partition classes:K deals every client K classes",
        "": _COUNTED,
    },
    "weights weight sample-weight sample-weights case-weights freq frequency freqweight counts "
    "count count-column wt w": {
        "--weights": "--weights COLUMN",
        "--keep": "networks that begin with weights of a file: --set weights=FILE",
        "": "rows have no weights yet: repeat each row as often as it counts",
    },
    "port p host address addr ip bind server server-address server-url url superlink listen "
    "fleet-api-address": {
        "--listen": "--listen HOST:PORT",
        "--server": "--server HOST:PORT",
        "--host": "--host NAME; the port is that of `hopfed serve --listen HOST:PORT`",
        "--dask": "--dask tcp://HOST:PORT",
    },
    "output o out-file outfile output-file output-dir outdir out-dir save save-to save-path "
    "save-dir results result-dir dest destination": {
        "--out": "",
        "--figure": "--figure FILE draws; numbers go to a file by --json > FILE",
    },
    "seed seeds random-state random-seed rng rng-seed s times repeats runs n-runs": {
        "--seed": "",
        "--seeds": "--seeds COUNT, or FIRST:END such as 100:105",
    },
    "n-init ninit init nrep n-rep starts n-starts nstarts restarts max-iter maxiter max-iters "
    "n-iter niter iterations iter steps tol abs-tol rel-tol tolerance epochs": {
        "--updates": "",
        "--quality": _SETTLED,
        "--set": "--set epochs=NUMBER, where networks are trained",
    },
    "local-epochs local-steps ls num-epochs n-epochs e": {"--set": "--set epochs=NUMBER"},
    "lr learning-rate local-learning-rate llr eta": {"--set": "--set lr=RATE"},
    "batch batch-size lbs b": {"--set": "--set batch=NUMBER"},
    "optimizer optim momentum weight-decay wd": {"--set": "--set optimizer=NAME, momentum=NUMBER"},
    "join-ratio jr fraction fraction-fit fraction-train client-fraction participation frac": {
        "--models": "--set rate=SHARE, of the clients in each round",
    },
    "num-clients n-clients nclients nc num-users num-parties n-parties parties users "
    "num-supernodes num-nodes min-clients min-available-clients min-fit-clients": {"--clients": ""},
    "num-rounds n-rounds global-rounds gr comm-rounds communication-rounds num-server-rounds": {
        "--rounds": "",
    },
    "dataset data d ds input in i input-file path": {
        "--data": "",
        "--config": "--data",
        "--words": "name the files without an option",
    },
    "model arch architecture net network m backbone": {"--models": ""},
    "algorithm algo strategy method": {"--models": "`hopfed fl run METHOD`, without an option"},
    "alpha dirichlet dirichlet-alpha beta non-iid niid noniid iid distribution partitioner al": {
        "--partition": "--partition iid, dirichlet:ALPHA or classes:K",
    },
    "gpu gpus cuda use-cuda use-gpu device-id did dev num-gpus cpu": {
        "--device": "--device cpu, cuda or cuda:N",
    },
    "jobs n-jobs njobs j num-workers n-workers processes": {"--workers": "", "": _THREADS},
    "threads num-threads n-threads nthreads": {"": _THREADS},
    "force f yes y replace clobber exist-ok": {"--overwrite": ""},
    "continue restart checkpoint from-checkpoint resume-from": {"--resume": ""},
    "format as-json": {"--json": "", "--out": "the ending of --out says it"},
    "plot plots graph graphs fig figures image png draw": {"--figure": ""},
    "sep separator delimiter header no-header encoding decimal": {"--words": _FOUND},
    "na na-values missing nan null na-rm missing-values": {
        "--words": "--words WORD=missing; blank cells and NA are gaps already",
    },
    "id-column id-variable idvariable index index-col rownames row-names": {"--id": "--id COLUMN"},
    "drop exclude drop-columns label labels target usecols use-columns usevariables features": {
        "--ignore": "--ignore COLUMN,... leaves columns out",
    },
    "covariates covariate predictors structural measurement formula": {
        "--ignore": "no regression on classes is fitted: --ignore COLUMN,... leaves columns out, "
        "and `hopfed assign` writes every row's class for one",
    },
    "cutoff cut binarise binary discretize median threshold bins": {
        "--binarize": "--binarize median, or COLUMN=NUMBER",
    },
    "categorical categories nominal one-hot onehot": {"--words": "--words COLUMN=category"},
    "n-samples nsamples samples n-rows rows n n-examples sample-size": {
        "--M": "",
        "--set": "--set examples=NUMBER, or M=NUMBER: `hopfed list NAME` has the settings",
    },
    "n-features nfeatures features dim dims dimension n-columns sites n-sites": {
        "--N": "",
        "--columns": "",
    },
    "prevalence share shares proportion class-sizes": {"--exposure": ""},
    "privacy-budget dp noise-multiplier sigma": {"--epsilon": "--epsilon NUMBER, and --delta"},
    "cert certs certificate certificates root-certificates ssl-ca-certfile cacert tls": {
        "--ca": "--ca ca.pem, of `hopfed certs`",
        "--keys": "--keys FOLDER, of `hopfed certs`",
    },
    "insecure no-tls plaintext": {
        "--ca": f"{_NO_PLAIN}--ca and --key",
        "--keys": f"{_NO_PLAIN}--keys",
    },
    "private-key auth-supernode-private-key client-key": {"--key": ""},
    "image-size img-size width height": {"--shape": "--shape HEIGHTxWIDTH"},
    "run-config option options settings setting param params parameters conf cfg hparams": {
        "--set": "--set KEY=VALUE",
    },
    "verbose v quiet q silent debug": {
        "": "leave it out; progress is drawn on a terminal alone, and --json prints JSON alone",
    },
}

_COMMANDS = {
    "recover": "fit lca polca stepmix latent-class cluster kmeans kmodes find discover",
    "assign": "predict classify score posterior transform apply",
    "complete": "impute fill fillna",
    "export": "save convert to-csv write dump",
    "store": "memorize memorise learn hopfield",
    "recall": "retrieve remember query",
    "figure": "plot draw graph picture",
    "report": "html page",
    "show": "info inspect describe print summary",
    "compare": "diff",
    "list": "ls experiments presets methods",
    "serve": "server superlink flower-superlink start-server",
    "join": "client supernode flower-supernode start-client connect",
    "certs": "cert keys certificates keygen",
    "fl": "federated federation simulate simulation flwr train pfl",
    "spectrum": "pca eigenvalues parallel-analysis scree svd",
    "theory": "power plan mp",
    "bench": "benchmark time speed",
    "doctor": "check env environment versions",
    "demo": "example tutorial quickstart",
    "sweep": "grid grid-search",
    "run": "experiment reproduce train",
}


def answer(word: str, command: str, options: Iterable[str]) -> str | None:
    """What to write instead of an option of another tool; None for words that are not known.

    Parameters
    ----------
    word : the option as it was given, such as ``--n_clusters``.
    command : whose option it was, such as ``hopfed recover``.
    options : that the command has.
    """
    plain, held = _plain(word), set(options)
    for words, ways in _OPTIONS.items():
        if plain in words.split():
            for option, way in ways.items():
                if option in held or not option:
                    way = way or option
                    use = "use " if way.startswith("--") else ""
                    return f"{command} has no {word}: {use}{way}"
    return None


def command_for(word: str, commands: Sequence[str]) -> str | None:
    """The command that does what `word` does elsewhere; None for words that are not known."""
    plain = _plain(word)
    found = (name for name, words in _COMMANDS.items() if plain in words.split())
    return next((name for name in found if name in commands), None)


def _plain(word: str) -> str:
    """A word without its dashes, in small letters."""
    return re.sub(r"[_.]", "-", word.partition("=")[0]).strip("-").lower()
