"""Unicode normal forms in linear time.

Sorting a run of combining marks is quadratic in `unicodedata.normalize`: a megabyte of them takes minutes. A run is
canonically the same in the order of its marks' classes, and so it is put into that order first.
"""

import unicodedata
from typing import Literal

Normalise = Literal["none", "nfc", "nfkc"]

# Marks that are none by their own class, but come apart into some: three always, two more under compatibility.
_NFC_MARKS = str.maketrans({chr(c): unicodedata.normalize("NFD", chr(c)) for c in (0x0F73, 0x0F75, 0x0F81)})
_NFKC_MARKS = _NFC_MARKS | str.maketrans({chr(c): unicodedata.normalize("NFKD", chr(c)) for c in (0xFF9E, 0xFF9F)})
_SHORT = 256


def normalised(text: str, how: Normalise) -> str:
    r"""The text in a normal form of Unicode, or as it is.

    >>> normalised("e\u0301", "nfc"), normalised("ﬁ", "nfkc")
    ('é', 'fi')
    """
    if how == "none" or text.isascii():
        return text
    if len(text) > _SHORT:
        text = _ordered(text.translate(_NFC_MARKS if how == "nfc" else _NFKC_MARKS))
    return unicodedata.normalize("NFC" if how == "nfc" else "NFKC", text)


def _ordered(text: str) -> str:
    """Each run of marks sorted by class, stably."""
    classes = [unicodedata.combining(c) for c in text]
    result: list[str] = []
    start = 0
    for place in range(len(text) + 1):
        if place == len(text) or classes[place] == 0:
            if place - start > 1:
                result.extend(text[i] for i in sorted(range(start, place), key=classes.__getitem__))
            else:
                result.append(text[start:place])
            result.append(text[place : place + 1])
            start = place + 1
    return "".join(result)
