"""From text to numbers and back. A thin class over `tokenizers.Tokenizer`; three ways to cut a text.

    characters   one Unicode code point a token; every text of known characters comes back as it was
    words        runs of letters, digits and marks, and single other characters, each with the spaces beside it; every
                 text of known words comes back with one space where there was white space
    subwords     byte-pair encoding over bytes (Sennrich 2016, in the form of GPT-2); every text comes back as it was

Four ids are the same in every tokeniser: PAD, UNKNOWN, BEGIN, END. No text can produce one of their names: a text
that says `</s>` is cut into pieces as any other. The JSON is the standard one of `tokenizers`, and says all.
"""

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal, Self, final, get_args

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from regard.data.normal import Normalise
from regard.errors import BadData, RegardError

PAD, UNKNOWN, BEGIN, END = 0, 1, 2, 3
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
BYTES = 256
_SHOWN = 200
"""Characters of a stranger's text that an error repeats."""

Kind = Literal["characters", "words", "subwords"]

# No piece is longer than 32 characters: training on pieces without a bound is quadratic in their length.
# Letters and signs are never in one piece, so that none is a special's name.
_PIECES = r" ?[\p{L}\p{M}]{1,32}| ?\p{N}{1,32}| ?[^\s\p{L}\p{M}\p{N}]{1,32}|\s{1,32}"
# Between two words there was white space, or they would be one. So only a sign has to say whether there was any.
_WORDS = r"\w+| ?(?!\w)[^ ] ?"
_SPACED = r"\w+|[^\w\s]"
"""How older runs cut words, which they decode with a space between all."""
_WHITE = r"[\s\x1c-\x1f]+"
"""What `str.split` parts words at."""


@final
class Tokeniser:
    """Cuts texts into tokens. Made by `train` or `from_json`.

    >>> letters = Tokeniser.train(["abc", "bcd"], "characters")
    >>> letters.encode("bad")
    [4, 6, 7, 3]
    >>> letters.decode([4, 6, 7, 3]), letters.tokens([4, 3]), letters.size
    ('bad', ['b', '</s>'], 8)

    Attributes:
        kind: How a text is cut.
        normalise: The normal form of Unicode that a text is put into before.
        spaced: Whether words are cut and decoded as in older runs, with a space between all.
    """

    def __init__(
        self,
        kind: Kind,
        vocabulary: dict[str, int],
        merges: Sequence[Any],
        normalise: Normalise,
        *,
        spaced: bool = False,
    ) -> None:
        self.kind, self.normalise, self.spaced = kind, normalise, spaced
        self._cutter = _cutter(kind, vocabulary, merges, normalise, spaced)
        names = sorted(vocabulary, key=vocabulary.__getitem__)
        back = _byte_of_letter() if kind == "subwords" else {}
        self._pieces = [
            bytes(back[c] for c in name) if back and i > END else name.encode() for i, name in enumerate(names)
        ]
        self._apart = {i for i, name in enumerate(names) if i == UNKNOWN or self._is_word(name)}

    @classmethod
    def train(
        cls, texts: Iterable[str], kind: Kind = "subwords", size: int | None = None, *, normalise: Normalise = "nfc"
    ) -> Self:
        """Learns the tokens of some texts. The same texts in the same order give the same tokeniser, byte for byte.

        Args:
            texts: What to learn from.
            kind: How to cut.
            size: The most tokens there may be, the four specials among them: the most frequent ones are kept. By
                default all characters, all words, or 8,000 subwords (at least 260, one for each byte).
            normalise: The normal form of Unicode that texts are put into, now and in `encode`.
        """
        if kind not in get_args(Kind):
            raise RegardError(f"kind={kind!r}: expected one of {', '.join(get_args(Kind))}")
        least = len(SPECIALS) + (BYTES if kind == "subwords" else 1)
        if size is not None and size < least:
            raise RegardError(f"size={size}: {kind} need at least {least} tokens; raise --task.vocabulary (size)")
        specials = {name: i for i, name in enumerate(SPECIALS)}
        if kind == "subwords":
            model = _learn_merges(_cutter(kind, specials, [], normalise), texts, size or 8000)
            return cls(kind, model["vocab"], model["merges"], normalise)
        cutter = _cutter(kind, specials, [], normalise)
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(_cut(cutter, text))
        kept = sorted(counts, key=lambda token: (-counts[token], token))[: None if size is None else size - END - 1]
        return cls(kind, specials | {token: i for i, token in enumerate(kept, END + 1)}, [], normalise)

    @property
    def size(self) -> int:
        """How many tokens there are, with the specials."""
        return len(self._pieces)

    def encode(self, text: str) -> list[int]:
        """The ids of a text. The last one is END.

        Raises:
            BadData: if it holds half of a surrogate pair, which is no character.
        """
        try:
            return [*self._cutter.encode(text).ids, END]
        except (TypeError, UnicodeEncodeError):
            raise _fault([text]) from None

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, as `encode` gives them."""
        try:
            return [[*found.ids, END] for found in self._cutter.encode_batch_fast(list(texts))]
        except (TypeError, UnicodeEncodeError):
            raise _fault(texts) from None

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids, without PAD, BEGIN and END. UNKNOWN is shown as `<unk>`: something stood there."""
        said = [i for i in ids if i not in (PAD, BEGIN, END)]
        pieces = [self._piece(i) for i in said]
        for place, (left, right) in enumerate(itertools.pairwise(said)):
            if left in self._apart and right in self._apart:
                pieces[place] += b" "
        return b"".join(pieces).decode(errors="replace")

    def tokens(self, ids: Iterable[int]) -> list[str]:
        r"""Each id's piece of text, to be shown. A part of a character is shown by its bytes, such as `\xe2`."""
        shown = [self._piece(i).decode(errors="backslashreplace") for i in ids]
        return [piece.strip(" ") for piece in shown] if self.kind == "words" else shown

    def words(self, text: str) -> list[int | None]:
        """For each token of a text but END the number of the word that it stands in; None for one of white space.

        Words are what `str.split` gives.

        >>> Tokeniser.train(["it's me"], "words").words("it's  me")
        [0, 0, 0, 1]
        """
        number, word_at = -1, list[int | None]()
        for before, character in itertools.pairwise(" " + text):
            number += before.isspace() and not character.isspace()
            word_at.append(None if character.isspace() else number)
        spans = self._cutter.encode(text).offsets
        return [next((word for word in word_at[start:end] if word is not None), None) for start, end in spans]

    def to_json(self) -> str:
        """All of it as the JSON that `tokenizers` reads and writes."""
        return self._cutter.to_str(pretty=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The tokeniser that `to_json` wrote.

        Only the vocabulary, the merges and two names are taken from the text: a regular expression in it is not run.

        Raises:
            BadData: if it is not such a JSON.
        """
        try:
            given = json.loads(text)
            model = given["model"]
            merges = [(str(left), str(right)) for left, right in model.get("merges", [])]
            kind: Kind = "words" if model["type"] == "WordLevel" else "subwords" if given["decoder"] else "characters"
            form = given["normalizer"] or {"type": "none"}
            first = form["normalizers"][0]["type"] if form["type"] == "Sequence" else form["type"]
            normalise: Normalise = "nfkc" if first == "NFKC" else "nfc" if first == "NFC" else "none"
            spaced = kind == "words" and given["pre_tokenizer"]["pattern"]["Regex"] == _SPACED
            made = cls(kind, _checked(model["vocab"], kind), merges, normalise, spaced=spaced)
            again = json.loads(made.to_json())
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as fault:
            raise BadData(f"not the JSON of a tokeniser ({type(fault).__name__}: {str(fault)[:_SHOWN]})") from None
        except Exception as fault:  # what `tokenizers` raises has no type of its own
            raise BadData(f"not the JSON of a tokeniser: {str(fault)[:_SHOWN]}") from None
        for part in ("added_tokens", "normalizer", "pre_tokenizer", "decoder"):
            if given.get(part) != again[part]:
                found = repr(given.get(part))[:_SHOWN]
                raise BadData(f"not a tokeniser of this library: its {part} is {found}, expected {again[part]!r}")
        return made

    def _is_word(self, piece: str) -> bool:
        """Whether a space stands between a piece and another such piece: one that would have become one with it."""
        return self.kind == "words" and (self.spaced or len(_pieces(self._cutter, f"a{piece}")) == 1)

    def _piece(self, token: int) -> bytes:
        if not 0 <= token < len(self._pieces):
            raise ValueError(f"id {token}: there are {len(self._pieces)} tokens")
        return self._pieces[token]


def _fault(texts: Sequence[str]) -> Exception:
    for number, text in enumerate(texts, 1):
        if not isinstance(text, str):
            return TypeError(f"text {number} is {text!r}: expected a str")
        if any("\ud800" <= character <= "\udfff" for character in text):
            return BadData(f"text {number} holds half of a surrogate pair, expected characters")
    return TypeError(f"expected a sequence of str, got {texts!r}")


def _cutter(
    kind: Kind, vocabulary: dict[str, int], merges: Sequence[Any], normalise: Normalise, spaced: bool = False
) -> Tokenizer:
    unknown = SPECIALS[UNKNOWN]
    if kind == "words":
        cutter = Tokenizer(models.WordLevel(vocabulary, unk_token=unknown))
        cutter.pre_tokenizer = pre_tokenizers.Split(Regex(_SPACED if spaced else _WORDS), "removed", invert=True)
    elif kind == "characters":
        cutter = Tokenizer(models.BPE(vocabulary, [], unk_token=unknown))  # without merges a character stays alone
    else:
        cutter = Tokenizer(models.BPE(vocabulary, [tuple(merge) for merge in merges]))
        cut = pre_tokenizers.Split(Regex(_PIECES), "isolated")
        as_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        cutter.pre_tokenizer = pre_tokenizers.Sequence([cut, as_bytes])
        cutter.decoder = decoders.ByteLevel()
    steps: list[Any] = [] if normalise == "none" else [normalizers.NFC() if normalise == "nfc" else normalizers.NFKC()]
    if kind == "words" and not spaced:
        cutter.normalizer = normalizers.Sequence([*steps, normalizers.Replace(Regex(_WHITE), " "), normalizers.Strip()])
    elif steps:
        cutter.normalizer = steps[0]
    return cutter


def _cut(cutter: Tokenizer, text: str) -> list[str]:
    """The tokens of a text, known or not."""
    plain = cutter.normalizer.normalize_str(text) if cutter.normalizer else text
    return _pieces(cutter, plain) if cutter.pre_tokenizer else list(plain)


def _pieces(cutter: Tokenizer, plain: str) -> list[str]:
    return [piece for piece, _ in cutter.pre_tokenizer.pre_tokenize_str(plain)]


def _learn_merges(cutter: Tokenizer, texts: Iterable[str], size: int) -> dict[str, Any]:
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=2,
        special_tokens=list(SPECIALS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    cutter.train_from_iterator(texts, trainer)
    model: dict[str, Any] = json.loads(cutter.to_str())["model"]
    return model


def _checked(vocabulary: dict[str, int], kind: Kind) -> dict[str, int]:
    names = sorted(vocabulary, key=vocabulary.__getitem__)
    if [vocabulary[name] for name in names] != list(range(len(names))):
        raise ValueError("the ids do not count from 0 without a gap")
    if tuple(names[: END + 1]) != SPECIALS:
        raise ValueError(f"the first four tokens are {names[: END + 1]}, expected {list(SPECIALS)}")
    if kind == "subwords" and not vocabulary.keys() >= _byte_of_letter().keys():
        raise ValueError("not every byte has a token")
    return vocabulary


def _byte_of_letter() -> dict[str, int]:
    """The letter that stands for each byte in a byte-level vocabulary: itself where it can be seen."""
    seen = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(BYTES) if byte not in seen]
    return {chr(byte): byte for byte in seen} | {chr(BYTES + i): byte for i, byte in enumerate(hidden)}
