"""Dtypes: what the safetensors format calls them, and what is kept as something else with a note of what it was."""

import torch

# Written and read under these names by every safetensors library since 0.5 or so.
NAMES: dict[torch.dtype, str] = {
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.uint16: "U16",
    torch.int16: "I16",
    torch.uint32: "U32",
    torch.int32: "I32",
    torch.uint64: "U64",
    torch.int64: "I64",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float32: "F32",
    torch.float64: "F64",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
}

# The format has no name for these (or only its newest version has, and an older library refuses the whole file). They are stored
# as numbers of the plainer kind, with one dimension more: a complex number is two real ones.
STORED_AS: dict[torch.dtype, torch.dtype] = {
    torch.complex32: torch.float16,
    torch.complex64: torch.float32,
    torch.complex128: torch.float64,
    torch.float8_e4m3fnuz: torch.uint8,
    torch.float8_e5m2fnuz: torch.uint8,
    torch.float8_e8m0fnu: torch.uint8,
} | ({torch.float4_e2m1fn_x2: torch.uint8} if "float4_e2m1fn_x2" in vars(torch) else {})  # since torch 2.8

# What the newest libraries write is read all the same.
BY_NAME = {name: dtype for dtype, name in NAMES.items()} | {
    "C64": torch.complex64,
    "F8_E4M3FNUZ": torch.float8_e4m3fnuz,
    "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
    "F8_E8M0": torch.float8_e8m0fnu,
}
KEPT_BY_NAME = {str(dtype).removeprefix("torch."): dtype for dtype in STORED_AS}


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def stored_form(dtype: torch.dtype, shape: tuple[int, ...]) -> tuple[torch.dtype, tuple[int, ...]]:
    """The dtype and the shape under which a tensor stands in the file."""
    plain = STORED_AS.get(dtype)
    return (dtype, shape) if plain is None else (plain, (*shape, dtype.itemsize // plain.itemsize))
