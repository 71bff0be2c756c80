"""Tensors to bytes and back, in the safetensors format, and never in another."""

import io
import itertools
import json
from collections.abc import Mapping

import safetensors
import torch
from safetensors.torch import load
from torch import Tensor

from regard.errors import BadData
from regard.training.header import LONGEST_NAME, MOST_TENSORS, Expected, read_header

_TYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "I16": torch.int16,
    "U16": torch.uint16,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I32": torch.int32,
    "U32": torch.uint32,
    "F32": torch.float32,
    "I64": torch.int64,
    "U64": torch.uint64,
    "F64": torch.float64,
    "C64": torch.complex64,
}
_NAMES = {dtype: name for name, dtype in _TYPES.items()}


def expected(tensors: Mapping[str, Tensor]) -> Expected:
    """What a file of such tensors must hold; tensors on the device "meta" will do, and cost nothing.

    >>> expected({"weight": torch.empty(3, 5, device="meta")})
    {'weight': ((3, 5), 'F32')}
    """
    return {name: (tuple(tensor.shape), _name_of(name, tensor)) for name, tensor in tensors.items()}


def pack(tensors: Mapping[str, Tensor]) -> bytes:
    """Writes tensors as a safetensors file, from wherever they are. Tied ones are written once each.

    Where memory runs out it raises `MemoryError`: the library's own writer takes three times as much, and ends
    the process.

    Raises:
        BadData: if a tensor has a type or layout that the format lacks, or a name is not one.
    """
    if len(tensors) > MOST_TENSORS:
        raise BadData(f"{len(tensors):,} tensors, at most {MOST_TENSORS:,} are read back")
    plain: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
            raise BadData(f"{name[:40]!r} is not a name of a tensor: 1 to {LONGEST_NAME} printable signs")
        _name_of(name, tensor)
        if tensor.layout is not torch.strided or tensor.is_meta:
            raise BadData(f"{name} has no plain numbers to write: {tensor.layout} on {tensor.device}")
        plain[name] = tensor.detach().to("cpu").resolve_conj().resolve_neg().contiguous()
    # The widest types first, so that each tensor begins where its type may.
    ordered = sorted(plain.items(), key=lambda item: (-item[1].itemsize, item[0]))
    ends = list(itertools.accumulate((tensor.nbytes for _, tensor in ordered), initial=0))
    header = {
        name: {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": offsets}
        for (name, tensor), offsets in zip(ordered, itertools.pairwise(ends), strict=True)
    }
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join((len(text).to_bytes(8, "little"), text, *(_numbers(tensor) for _, tensor in ordered)))


def unpack(data: bytes, what: str, *, expect: Expected | None = None) -> dict[str, Tensor]:
    """Reads a safetensors file, after `read_header` has found it sound.

    Args:
        data: The file.
        what: Its name, for messages.
        expect: The tensors that must be there, and no others; None to accept any.

    Raises:
        BadData: if it is not sound.
        Mismatch: if its tensors are not those expected.
    """
    read_header(io.BytesIO(data), len(data), what, expect)
    try:
        return load(data)
    except safetensors.SafetensorError as error:
        raise BadData(f"not a sound safetensors file: {error}", file=what) from None


def _numbers(tensor: Tensor) -> memoryview:
    """The bytes of a contiguous tensor, without a copy."""
    return tensor.reshape(-1).view(torch.uint8).numpy().data


def _name_of(name: str, tensor: Tensor) -> str:
    if tensor.dtype not in _NAMES:
        raise BadData(f"{name} has the type {tensor.dtype}, which safetensors has not: convert it")
    return _NAMES[tensor.dtype]
