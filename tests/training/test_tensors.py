"""Tensors to safetensors and back."""

import pytest
import torch

from regard.errors import BadData
from regard.training.header import BITS, Mismatch
from regard.training.tensors import _TYPES, expected, pack, unpack


@pytest.mark.parametrize("dtype", _TYPES.values(), ids=str)
def test_every_type_comes_back(dtype):
    whole = torch.arange(35).reshape(5, 7)
    tensors = {"a": (whole % 2 if dtype is torch.bool else whole).to(dtype), "one": torch.ones((), dtype=dtype)}
    back = unpack(pack(tensors), "x", expect=expected(tensors))
    for name, tensor in tensors.items():
        assert back[name].dtype == dtype
        assert back[name].tolist() == tensor.tolist()


def test_the_header_knows_the_types_that_are_written():
    assert {name: dtype.itemsize * 8 for name, dtype in _TYPES.items()} == BITS


def test_tied_and_strided_tensors_are_written_by_value():
    base = torch.arange(35.0).reshape(5, 7)
    complex_ = torch.complex(base, -base)
    tensors = {
        "base": base,
        "tied": base,
        "turned": base.T,
        "part": base[1:3],
        "every other": base[:, ::2],
        "repeated": base[0].expand(3, 7),
        "conjugate": complex_.conj(),
        "imaginary": complex_.conj().imag,
        "learned": torch.nn.Parameter(base),
    }
    back = unpack(pack(tensors), "x")
    for name, tensor in tensors.items():
        assert torch.equal(back[name], tensor), name
    assert len({tensor.data_ptr() for tensor in back.values()}) == len(tensors)


def test_what_has_no_numbers_or_no_name_is_refused():
    for tensors, told in (
        ({"a": torch.ones(3, device="meta")}, "a has no plain numbers to write: torch.strided on meta"),
        ({"a": torch.eye(3).to_sparse()}, "a has no plain numbers to write: torch.sparse_coo on cpu"),
        ({"a": torch.ones(3, dtype=torch.complex128)}, "a has the type torch.complex128, which safetensors has not"),
        ({"": torch.ones(3)}, "'' is not a name of a tensor: 1 to 256 printable signs"),
        ({"a\nb": torch.ones(3)}, r"'a\\nb' is not a name of a tensor"),
        ({"a" * 257: torch.ones(3)}, "'a{40}' is not a name of a tensor"),
        (dict.fromkeys(map(str, range(20_001)), torch.ones(1)), "20,001 tensors, at most 20,000 are read back"),
    ):
        with pytest.raises(BadData, match=told):
            pack(tensors)


def test_many_tensors_come_back():
    tensors = {f"a.name.of.usual.length.{i}": torch.empty(0) for i in range(20_000)}
    assert len(unpack(pack(tensors), "x")) == 20_000


def test_what_is_expected_costs_no_memory():
    assert expected({"a": torch.empty(2**40, device="meta")}) == {"a": ((2**40,), "F32")}
    with pytest.raises(Mismatch, match=r"x: made for another model: a is \(3,\) F32, expected \(1099511627776,\) F32"):
        unpack(pack({"a": torch.ones(3)}), "x", expect=expected({"a": torch.empty(2**40, device="meta")}))
