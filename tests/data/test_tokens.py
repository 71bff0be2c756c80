"""Tokenisers: round trips, the four ids, determinism, linear time, and JSON that cannot be made to do harm."""

import json
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.tokens import BEGIN, END, PAD, SPECIALS, UNKNOWN, Tokeniser
from regard.errors import BadData, RegardError

TEXTS = ["the cat sat on the mat", "der Hund läuft, schnell!", "the the the 2026", "<pad> </s> <unk> <s>"] * 3
KINDS = ("characters", "words", "subwords")
EVIL = ["</s>", "<pad>", "a</s>b", " <unk>", "<s><s>", "<pad></s>"]


@pytest.fixture(scope="module", params=KINDS)
def tokeniser(request):
    return Tokeniser.train(TEXTS, request.param, 290)


def test_the_four_ids(tokeniser):
    assert (PAD, UNKNOWN, BEGIN, END) == (0, 1, 2, 3)
    assert tuple(tokeniser.tokens(range(4))) == SPECIALS
    for text in TEXTS:
        ids = tokeniser.encode(text)
        assert ids[-1] == END
        assert min(ids[:-1]) > END
        assert max(ids) < tokeniser.size <= 290


@pytest.mark.parametrize("text", EVIL)
def test_no_text_is_a_special(tokeniser, text):
    assert not set(tokeniser.encode(text)[:-1]) & {PAD, BEGIN, END}


def test_no_text_is_a_special_even_if_learnt_from():
    for kind in KINDS:
        learnt = Tokeniser.train(EVIL * 50, kind, 4000)
        for text in EVIL:
            assert min(learnt.encode(text)[:-1]) > END


def test_all_at_once_is_one_by_one(tokeniser):
    assert tokeniser.encode_all(TEXTS) == [tokeniser.encode(text) for text in TEXTS]
    assert tokeniser.encode_all([]) == []
    assert tokeniser.encode("") == [END]


def test_known_texts_come_back(tokeniser):
    for text in TEXTS[:1]:
        assert tokeniser.decode(tokeniser.encode(text)) == text
        assert tokeniser.decode([BEGIN, *tokeniser.encode(text), PAD, PAD]) == text


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_every_text_comes_back_from_subwords(text):
    ids = BYTES_ONLY.encode(text)
    assert BYTES_ONLY.decode(ids) == text
    assert UNKNOWN not in ids


BYTES_ONLY = Tokeniser.train(TEXTS, "subwords", 300, normalise="none")


def test_what_is_not_known():
    letters, words = (Tokeniser.train(["ab cd"], kind) for kind in ("characters", "words"))
    assert letters.encode("axb") == [*letters.encode("a")[:-1], UNKNOWN, *letters.encode("b")]
    assert letters.decode(letters.encode("axb")) == "a<unk>b"
    assert words.encode("ab  x,cd") == [*words.encode("ab")[:-1], UNKNOWN, UNKNOWN, *words.encode("cd")]
    assert words.decode(words.encode("ab  x cd")) == "ab <unk> cd"


def test_words_and_characters_are_cut_as_said():
    words = Tokeniser.train(["naïve café_1, don't हिन्दी!"], "words")
    assert words.tokens(words.encode("naïve café_1, don't हिन्दी!")) == [
        "naïve", "café_1", ",", "don", "'", "t", "हिन्दी", "!", "</s>",
    ]  # fmt: skip
    letters = Tokeniser.train(["👩🏽 e\u0323\u0301\n"], "characters")
    assert letters.tokens(letters.encode("👩🏽 ẹ́\n")) == ["👩", "🏽", " ", "ẹ", "\u0301", "\n", "</s>"]


PUNCTUATED = ["ab ab cd, don't.", "«a» - (b; c)--d  ,e .. 'f' \u0301g\u3000h\x1ci\n", "K AE1 T", "</s> <pad>", ",", ""]


@pytest.mark.parametrize("normalise", ["none", "nfc", "nfkc"])
def test_words_come_back_up_to_white_space(normalise):
    learnt = Tokeniser.train(PUNCTUATED, "words", normalise=normalise)
    for again in (learnt, Tokeniser.from_json(learnt.to_json())):
        for text in PUNCTUATED:
            assert again.decode(again.encode(text)) == " ".join(text.split())
    assert learnt.decode(learnt.encode("cd;ab")) == "cd <unk> ab"


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])) | st.text("a ,'_\u0301\u00b2\t\x1f-"))
def test_every_text_comes_back_from_words(text):
    learnt = Tokeniser.train([text], "words", normalise="none")
    assert learnt.decode(learnt.encode(text)) == " ".join(text.split())


def test_words_of_a_run_trained_before_decode_as_they_did():
    """Their JSON names another cut, at every sign, without a word about white space."""
    given = json.loads(Tokeniser.train(["a, b"], "words").to_json())
    given["pre_tokenizer"]["pattern"] = {"Regex": r"\w+|[^\w\s]"}
    given["normalizer"] = {"type": "NFC"}
    given["model"]["vocab"] = {**{name: i for i, name in enumerate(SPECIALS)}, "a": 4, ",": 5, "b": 6}
    old = Tokeniser.from_json(json.dumps(given))
    assert old.encode("a, b") == [4, 5, 6, END]
    assert old.decode([4, 5, 6, END]) == "a , b"
    assert Tokeniser.from_json(old.to_json()).decode([4, 5, 6]) == "a , b"


@pytest.mark.parametrize("kind", KINDS)
def test_the_word_of_each_token(kind):
    text = "  it's\u3000naïve,\x1c  no "
    learnt = Tokeniser.train([text], kind, 300)
    numbers, ids = learnt.words(text), learnt.encode(text)[:-1]
    assert len(numbers) == len(ids)
    for number, word in enumerate(text.split()):
        assert learnt.decode(i for i, n in zip(ids, numbers, strict=True) if n == number).strip() == word
    assert learnt.words("") == []


def test_pieces_of_a_character_are_shown_as_bytes():
    assert BYTES_ONLY.tokens(BYTES_ONLY.encode("€")) == ["\\xe2", "\\x82", "\\xac", "</s>"]


def test_the_most_frequent_are_kept():
    texts = ["a a a b b c", "d d d d"]
    assert Tokeniser.train(texts, "words", 6).tokens([4, 5]) == ["d", "a"]
    assert Tokeniser.train(texts, "words", 6).size == 6
    assert Tokeniser.train(["bca"], "characters", 6).tokens([4, 5]) == ["a", "b"]
    assert Tokeniser.train(TEXTS, "subwords", 270).size == 270


def test_normal_forms():
    composed, apart = "é", "e\u0301"
    for kind in KINDS:
        same = Tokeniser.train([composed], kind)
        assert same.encode(apart) == same.encode(composed)
        assert UNKNOWN not in same.encode(apart)
        other = Tokeniser.train([composed, apart], kind, normalise="none")
        assert other.encode(apart) != other.encode(composed)
    assert Tokeniser.train(["ﬁ"], "characters", normalise="nfkc").decode([4, 5]) in ("fi", "if")


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_texts_give_the_same_bytes(kind):
    code = (
        "from regard.data.tokens import Tokeniser; import hashlib;"
        "texts = [' '.join(str(i * j % 97) + 'ab' for j in range(9)) for i in range(300)];"
        f"print(hashlib.sha256(Tokeniser.train(texts, {kind!r}, 600).to_json().encode()).hexdigest())"
    )
    environment = {"PATH": "/usr/bin:/bin"}
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=environment | {"PYTHONHASHSEED": str(n), "RAYON_NUM_THREADS": str(n)},
            capture_output=True,
            check=True,
        ).stdout
        for n in (1, 2, 3)
    }
    assert len(found) == 1


@pytest.mark.parametrize("normalise", ["none", "nfc", "nfkc"])
@pytest.mark.parametrize("kind", KINDS)
def test_json_there_and_back(kind, normalise):
    made = Tokeniser.train(TEXTS, kind, 290, normalise=normalise)
    again = Tokeniser.from_json(made.to_json())
    assert again.to_json() == made.to_json()
    assert (again.kind, again.normalise, again.size) == (kind, normalise, made.size)
    assert again.encode_all(TEXTS) == made.encode_all(TEXTS)
    assert again.decode(made.encode("the mat")) == "the mat"


def test_the_json_is_the_usual_one(tokeniser):
    from tokenizers import Tokenizer

    plain = Tokenizer.from_str(tokeniser.to_json())
    assert [*plain.encode(TEXTS[0]).ids, END] == tokeniser.encode(TEXTS[0])


def changed(kind, change):
    given = json.loads(Tokeniser.train(TEXTS, kind, 290).to_json())
    change(given)
    return json.dumps(given)


def pattern(given):
    given["pre_tokenizer"]["pattern"] = {"Regex": "(a+)+$"}


def added(given):
    given["added_tokens"] = [{"id": 5, "content": "x", "special": True}]


def swapped(given):
    vocabulary = given["model"]["vocab"]
    vocabulary["<pad>"], vocabulary["</s>"] = 3, 0


def emptied(given):
    given["model"].update(vocab={name: i for i, name in enumerate(SPECIALS)}, merges=[])


HARMFUL = {
    "nothing": ("", "not the JSON of a tokeniser"),
    "a list": ("[]", "not the JSON of a tokeniser"),
    "deep": ("[" * 100_000, "not the JSON of a tokeniser"),
    "no model": ("{}", "not the JSON of a tokeniser (KeyError: 'model')"),
    "a slow pattern": (changed("words", pattern), "not a tokeniser of this library: its pre_tokenizer is"),
    "an added token": (changed("subwords", added), "not a tokeniser of this library: its added_tokens is"),
    "other specials": (changed("words", swapped), "the first four tokens are ['</s>', '<unk>', '<s>', '<pad>']"),
    "a gap": (changed("words", lambda g: g["model"]["vocab"].update(zz=9999)), "do not count from 0 without a gap"),
    "a byte missing": (changed("subwords", emptied), "not every byte has a token"),
    "a merge of nothing": (changed("subwords", lambda g: g["model"]["merges"].append(["qq", "q"])), "not the JSON of"),
}  # fmt: skip


@pytest.mark.parametrize("name", HARMFUL)
def test_json_that_is_not_ours(name, unchecked):
    text, expected = HARMFUL[name]
    with pytest.raises(BadData) as fault:
        Tokeniser.from_json(text)
    assert expected in str(fault.value)


def test_what_does_not_fit(tokeniser, unchecked):
    with pytest.raises(RegardError, match="size=259: subwords need at least 260 tokens"):
        Tokeniser.train(TEXTS, "subwords", 259)
    with pytest.raises(RegardError, match="size=4: words need at least 5 tokens"):
        Tokeniser.train(TEXTS, "words", 4)
    with pytest.raises(RegardError, match="kind='letters': expected one of characters, words, subwords"):
        Tokeniser.train(TEXTS, "letters")
    with pytest.raises(ValueError, match=f"id {tokeniser.size}: there are {tokeniser.size} tokens"):
        tokeniser.decode([tokeniser.size])
    with pytest.raises(ValueError, match="id -1: there are"):
        tokeniser.tokens([-1])
    with pytest.raises(BadData, match="text 1 holds half of a surrogate pair"):
        tokeniser.encode("\ud800")
    with pytest.raises(BadData, match="text 2 holds half of a surrogate pair"):
        tokeniser.encode_all(["a", "\udfff"])
    with pytest.raises(TypeError, match="text 1 is 7: expected a str"):
        tokeniser.encode(7)


@pytest.mark.parametrize("text", ["a", " ", "a\u0300\u0323", "\u0300\u0323", "😀", "a ", "\n"])
@pytest.mark.parametrize("kind", KINDS)
def test_linear_time(kind, text):
    """A second a megabyte; twice the text takes at most 2.5 times as long, with room for a busy machine."""
    learnt = Tokeniser.train([text * 20, "a b"], kind)
    times = []
    for size in (200_000, 400_000):
        long = text * (size // len(text.encode()))
        took = []
        for _ in range(2):
            started = time.process_time()
            learnt.encode(long)
            took.append(time.process_time() - started)
        times.append(min(took))
    assert times[1] < 0.8
    assert times[1] / max(times[0], 0.02) < 3.5


@pytest.mark.parametrize("kind", KINDS)
def test_training_on_one_endless_word_is_quick(kind):
    started = time.process_time()
    Tokeniser.train(["a" * 300_000, " " * 300_000], kind)
    assert time.process_time() - started < 3
