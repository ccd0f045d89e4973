"""The parts hostile and mutated model files are made of: archives, checkpoints, headers and gadgets."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch


class Call:
    """Pickles to a call of `function`."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.function, self.arguments = function, arguments

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self.function, self.arguments


def zipped(records: Mapping[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in records.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def checkpoint(pickled: bytes, storages: Mapping[str, bytes] | None = None) -> bytes:
    """A torch checkpoint around any pickle."""
    data = {f"archive/data/{key}": content for key, content in (storages or {}).items()}
    return zipped({"archive/data.pkl": pickled, "archive/version": b"3\n", "archive/byteorder": b"little", **data})


def torch_saved(value: Any, **options: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer, **options)
    return buffer.getvalue()


def safetensors(header: dict[str, Any] | bytes, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(begin: int, end: int, shape: list[int], dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def npy(array: np.ndarray, **options: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


def npz(**arrays: np.ndarray) -> bytes:
    return zipped({f"{name}.npy": npy(array) for name, array in arrays.items()})


def forged_tensor(old: bytes, new: bytes) -> bytes:
    """A checkpoint of a 7 x 5 tensor with one claim of its pickle changed."""
    good = zipfile.ZipFile(io.BytesIO(torch_saved(OrderedDict(w=torch.ones(7, 5)))))
    pickled = good.read("archive/data.pkl")
    assert pickled.count(old) == 1
    return checkpoint(pickled.replace(old, new), {"0": good.read("archive/data/0")})


def forged_array(header: str) -> bytes:
    """An archive of one array of 8 bytes whose header says something else."""
    text = header.encode() + b"\n"
    return zipped({"w.npy": b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(8)})


def protobuf(number: int, payload: bytes | int) -> bytes:
    """One field: a number as a varint below 128, bytes with their length."""
    if isinstance(payload, int):
        return bytes([number << 3, payload])
    assert len(payload) < 128
    return bytes([number << 3 | 2, len(payload)]) + payload


def onnx_model(location: str, offset: str = "0") -> bytes:
    """An ONNX model with one weight in another file."""
    places = {"location": location, "offset": offset}
    external = b"".join(protobuf(13, protobuf(1, k.encode()) + protobuf(2, v.encode())) for k, v in places.items())
    tensor = protobuf(1, 1) + protobuf(2, 1) + protobuf(8, b"w") + external + protobuf(14, 1)
    return protobuf(1, 8) + protobuf(2, b"t") + protobuf(7, protobuf(2, b"g") + protobuf(5, tensor))
