"""Public sets of pairs, by name.

    multi30k    image descriptions, German to English; `multi30k:en-de` the other way round
    tatoeba     short sentences, English to German, divided by English sentence; `tatoeba:de-en` the other way round
    cmudict     English words to their phonemes with stress, divided by word; `cmudict:nostress` without

A file is looked for below the environment variable REGARD_DATA, else fetched from its home (see `fetch.py`).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from regard.data.divide import part_of
from regard.data.fetch import Notify, Remote, located, member, to_stderr
from regard.data.lines import lines_of
from regard.data.normal import Normalise, normalised
from regard.data.pairs import Pair, Splits
from regard.data.readers import read_pairs
from regard.errors import BadData, RegardError

MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/"
NLTK = "https://raw.githubusercontent.com/nltk/nltk_data/5f09e470fe339e1a119dd174ca284129a3c7a5bb/packages/corpora/"


@dataclass(frozen=True)
class Known:
    """A public set.

    Attributes:
        read: Makes the splits of (set, variant, seed, normal form, how to tell of a download).
        variants: What may stand behind a colon; the first is the default.
        licence: As its source states it.
        description: What it is.
        files: What it is made of.
    """

    read: "Callable[[Known, str, int, Normalise, Notify], Splits]"
    variants: tuple[str, ...]
    licence: str
    description: str
    files: tuple[Remote, ...]


def load_known(spec: str, *, seed: int = 0, normalise: Normalise = "nfc", notify: Notify = to_stderr) -> Splits:
    """The splits of `name` or `name:variant`.

    Args:
        spec: Which set.
        seed: Of the division, for the sets that come undivided.
        normalise: The normal form of Unicode that texts are put into.
        notify: Is told of a download: the licence first, then the progress.
    """
    name, _, variant = spec.partition(":")
    known = KNOWN[name]
    if variant and variant not in known.variants:
        raise RegardError(f"{spec}: {name} has no variant {variant!r}, expected one of {', '.join(known.variants)}")
    made = known.read(known, variant or known.variants[0], seed, normalise, notify)
    return replace(made, name=spec, licence=known.licence, description=known.description)


def _multi30k(known: Known, variant: str, seed: int, normalise: Normalise, notify: Notify) -> Splits:
    del seed  # it comes divided
    paths = {remote.path: located(remote, known.licence, notify) for remote in known.files}
    source, target = variant.split("-")
    train, valid, test = (
        read_pairs(
            f"{paths[f'multi30k/{part}.{source}.gz']},{paths[f'multi30k/{part}.{target}.gz']}", normalise=normalise
        )
        for part in ("train", "val", "test_2016_flickr")
    )
    return Splits(train, valid, test, name="multi30k")


def _tatoeba(known: Known, variant: str, seed: int, normalise: Normalise, notify: Notify) -> Splits:
    path = located(known.files[0], known.licence, notify)
    groups: dict[str, list[str]] = defaultdict(list)
    with member(path, "deu.txt") as stream:
        for line in lines_of(stream, f"{path}/deu.txt"):
            fields = normalised(line.text, normalise).split("\t")
            if len(fields) < 2:
                raise BadData(f"{len(fields)} column, expected 2", file=f"{path}/deu.txt", line=line.number)
            groups[fields[0]].append(fields[1])
    parts: dict[str, list[Pair]] = {"train": [], "valid": [], "test": []}
    for english, germans in groups.items():
        for german in dict.fromkeys(germans):
            pair = Pair(english, german) if variant == "en-de" else Pair(german, english)
            parts[part_of(english, seed)].append(pair)
    return _with_references("tatoeba", parts, parts["valid"] + parts["test"])


def _cmudict(known: Known, variant: str, seed: int, normalise: Normalise, notify: Notify) -> Splits:
    del normalise  # it is ASCII
    path = located(known.files[0], known.licence, notify)
    groups: dict[str, list[str]] = defaultdict(list)
    with member(path, "cmudict/cmudict") as stream:
        for line in lines_of(stream, f"{path}/cmudict/cmudict"):
            fields = line.text.split(" ")
            if len(fields) < 3:
                reason = f"{len(fields)} fields, expected a word, a number and phonemes"
                raise BadData(reason, file=f"{path}/cmudict/cmudict", line=line.number)
            sounds = fields[2:] if variant == "stress" else [sound.rstrip("012") for sound in fields[2:]]
            groups[fields[0].lower()].append(" ".join(sounds))
    parts: dict[str, list[Pair]] = {"train": [], "valid": [], "test": []}
    held: list[Pair] = []
    for word, sounds in groups.items():
        part, variants = part_of(word, seed), [Pair(word, each) for each in dict.fromkeys(sounds)]
        parts[part].extend(variants if part == "train" else variants[:1])
        held.extend([] if part == "train" else variants)
    return _with_references("cmudict", parts, held)


def _with_references(name: str, parts: dict[str, list[Pair]], held: Iterable[Pair]) -> Splits:
    references: dict[str, list[str]] = defaultdict(list)
    for pair in held:
        references[pair.source].append(pair.target)
    return Splits(parts["train"], parts["valid"], parts["test"], name=name, references=dict(references))


def _remote(folder: str, home: str, *files: tuple[str, int, str]) -> tuple[Remote, ...]:
    return tuple(Remote(f"{folder}/{name}", home + name, size, digest) for name, size, digest in files)


KNOWN = {
    "multi30k": Known(
        _multi30k,
        ("de-en", "en-de"),
        "none stated for the text: for research; cite Elliott et al. 2016",
        "Multi30k, task 1, raw: descriptions of images in English and German (github.com/multi30k/dataset)",
        _remote(
            "multi30k",
            MULTI30K,
            ("train.de.gz", 637044, "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6"),
            ("train.en.gz", 568929, "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f"),
            ("val.de.gz", 24681, "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a"),
            ("val.en.gz", 21650, "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28"),
            ("test_2016_flickr.de.gz", 22890, "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8"),
            ("test_2016_flickr.en.gz", 21077, "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9"),
        ),
    ),
    "tatoeba": Known(
        _tatoeba,
        ("en-de", "de-en"),
        "CC BY 2.0 FR, manythings.org/anki and tatoeba.org",
        "Tatoeba sentences, English and German, of 2018-04-07 (manythings.org/anki)",
        _remote(
            "tatoeba",
            "https://www.manythings.org/anki/",
            ("deu-eng.zip", 3995651, "71750f704aeb6b0a01fe57341c3051b9efd98f63b61ee266b2c2283d1b80cb71"),
        ),
    ),
    "cmudict": Known(
        _cmudict,
        ("stress", "nostress"),
        "unrestricted, Carnegie Mellon University",
        "CMU Pronouncing Dictionary 0.7a, in NLTK's form: words in small letters to phonemes",
        _remote(
            "cmudict",
            NLTK,
            ("cmudict.zip", 896069, "d07cca47fd72ad32ea9d8ad1219f85301eeaf4568f8b6b73747506a71fb5afd6"),
        ),
    ),
}
