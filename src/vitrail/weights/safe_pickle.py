"""What a torch checkpoint's pickle would build, found by reading it, never by running it.

A plain state dict needs some thirty opcodes and four functions. This reader follows exactly those with stand-ins
(`TensorRef` for a tensor) and refuses every other opcode, every other global and every size that the file's own
storages do not bear out, so that what torch loads afterwards holds no surprise.
"""

from __future__ import annotations

import math
import pickletools
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from vitrail.errors import UnsafeFileError, WeightsError
from vitrail.weights.safe_header import MAX_DIMENSIONS, MAX_SIDE, Shape

MAX_OPCODES = 300_000  # 7,500 tensors; bounds the objects that one-byte opcodes can become
MAX_PICKLE_BYTES = 16 << 20
MAX_SHARING = 16  # how often the bytes of the file may be used by tensors that share storages
RESAVE = "re-save the tensors as safetensors"

STORAGES = {
    "torch DoubleStorage": torch.float64,
    "torch FloatStorage": torch.float32,
    "torch HalfStorage": torch.float16,
    "torch BFloat16Storage": torch.bfloat16,
    "torch LongStorage": torch.int64,
    "torch IntStorage": torch.int32,
    "torch ShortStorage": torch.int16,
    "torch CharStorage": torch.int8,
    "torch ByteStorage": torch.uint8,
    "torch BoolStorage": torch.bool,
}


@dataclass(frozen=True)
class TensorRef:
    """A tensor of the checkpoint: its type and shape."""

    dtype: torch.dtype
    shape: Shape


@dataclass(frozen=True)
class _Global:
    name: str


@dataclass(frozen=True)
class _Storage:
    dtype: torch.dtype
    numel: int


def scan_pickle(pickled: bytes, storages: Mapping[str, int], where: object) -> Any:
    """The object that `pickled` describes, tensors as `TensorRef`; `storages` maps each key to its bytes on file."""
    return _Scan(storages, where).run(pickled)


@dataclass
class _Scan:
    storages: Mapping[str, int]
    where: object
    stack: list[Any] = field(default_factory=list)
    below: list[list[Any]] = field(default_factory=list)  # the stacks under each open mark
    memo: dict[int, Any] = field(default_factory=dict)
    dtypes: dict[str, torch.dtype] = field(default_factory=dict)
    bytes_left: int = 0

    def __post_init__(self) -> None:
        self.bytes_left = MAX_SHARING * sum(self.storages.values())

    def run(self, pickled: bytes) -> Any:
        position = -1
        try:
            for count, (opcode, argument, at) in enumerate(pickletools.genops(pickled)):
                if count >= MAX_OPCODES:
                    raise self.unsafe("is longer than any state dict")
                position = at or 0
                if opcode.name == "GLOBAL":
                    self.check_spelling(str(argument), pickled, position)
                self.step(opcode.name, argument)
            (result,) = self.stack
        except (ValueError, IndexError, KeyError, Warning) as error:  # Warning: an odd escape, if warnings are errors
            raise WeightsError(f"its pickle is damaged ({error})", where=self.where, fix=RESAVE) from error
        if self.below or position != len(pickled) - 1:
            raise self.unsafe("goes on after its end")
        return result

    def check_spelling(self, name: str, pickled: bytes, position: int) -> None:
        """`genops` resolves backslashes in names and torch does not: both must read the same name."""
        if not pickled.startswith(f"c{name}\n".replace(" ", "\n").encode(), position):
            raise self.unsafe("spells a name in a misleading way")

    def step(self, opcode: str, argument: Any) -> None:
        if opcode in _PUSH_ARGUMENT:
            self.stack.append(argument)
        elif opcode in _PUSH_NEW:
            self.stack.append(_PUSH_NEW[opcode]())
        elif opcode in _STEPS:
            _STEPS[opcode](self, argument)
        else:
            raise self.unsafe(f"uses {opcode}, which no plain state dict needs")

    def unsafe(self, what: str) -> UnsafeFileError:
        return UnsafeFileError(f"its pickle {what}", where=self.where, fix=RESAVE)

    def proto(self, version: int) -> None:
        if version != 2:
            raise self.unsafe(f"is of protocol {version}, not 2 as torch.save writes")

    def mark(self, _: None) -> None:
        self.below.append(self.stack)
        self.stack = []

    def pop_mark(self) -> list[Any]:
        items, self.stack = self.stack, self.below.pop()
        return items

    def tuple_to_mark(self, _: None) -> None:
        items = tuple(self.pop_mark())
        self.stack.append(items)

    def tuple_of(self, count: int) -> None:
        if len(self.stack) < count:
            raise IndexError("stack is empty")
        self.stack[-count:] = [tuple(self.stack[-count:])]

    def put(self, index: int) -> None:
        self.memo[index] = self.stack[-1]

    def get(self, index: int) -> None:
        self.stack.append(self.memo[index])

    def append(self, _: None) -> None:
        self.extend([self.stack.pop()])

    def appends(self, _: None) -> None:
        self.extend(self.pop_mark())

    def extend(self, items: list[Any]) -> None:
        if type(self.stack[-1]) is not list:
            raise self.unsafe("appends to what is no list")
        self.stack[-1].extend(items)

    def set_item(self, _: None) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self.update([key, value])

    def set_items(self, _: None) -> None:
        self.update(self.pop_mark())

    def update(self, items: list[Any]) -> None:
        if type(self.stack[-1]) not in (dict, OrderedDict) or len(items) % 2:
            raise self.unsafe("sets items of what is no dictionary")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if type(key) not in (str, int):  # hashing a deeply nested key would overflow the interpreter's stack
                raise self.unsafe("has a key that is neither text nor a number")
            self.stack[-1][key] = value

    def find_global(self, name: str) -> None:
        if name not in _FUNCTIONS and name not in STORAGES:
            raise self.unsafe(f"asks for {name.replace(' ', '.')!r}, which no plain state dict needs")
        self.stack.append(_Global(name))

    def reduce(self, _: None) -> None:
        arguments, function = self.stack.pop(), self.stack.pop()
        if type(function) is not _Global or function.name not in _FUNCTIONS or type(arguments) is not tuple:
            raise self.unsafe("calls what is no function of a state dict")
        self.stack.append(_FUNCTIONS[function.name](self, arguments))

    def build(self, _: None) -> None:
        """`state_dict()` hangs the versions of its modules on its dictionary as `_metadata`; nothing else is set."""
        state = self.stack.pop()
        if type(self.stack[-1]) is not OrderedDict or type(state) is not dict or set(state) - {"_metadata"}:
            raise self.unsafe("sets attributes of an object")

    def storage(self, _: None) -> None:
        match self.stack.pop():
            case ("storage", _Global(name), str(key), str(), int(numel)) if name in STORAGES:
                self.stack.append(self.checked_storage(key, STORAGES[name], numel))
            case _:
                raise self.unsafe("refers to something that is no storage")

    def checked_storage(self, key: str, dtype: torch.dtype, numel: int) -> _Storage:
        if self.dtypes.setdefault(key, dtype) is not dtype:
            raise self.unsafe(f"gives storage {key!r} two types")
        if key not in self.storages or numel * dtype.itemsize != self.storages[key]:
            raise self.unsafe(f"claims {numel} values in storage {key!r}, which the file does not hold")
        return _Storage(dtype, numel)

    def make_dictionary(self, arguments: tuple[Any, ...]) -> OrderedDict[Any, Any]:
        if arguments:
            raise self.unsafe("fills a dictionary in an unusual way")
        return OrderedDict()

    def make_tensor(self, arguments: tuple[Any, ...]) -> TensorRef:
        match arguments:
            case (_Storage() as storage, int(offset), tuple(size), tuple(stride), bool(), OrderedDict() as hooks):
                if hooks or not _fits(storage.numel, offset, size, stride):
                    raise self.unsafe(f"claims a tensor of shape {_short(size)} that its storage does not hold")
                self.count_bytes(math.prod(size) * storage.dtype.itemsize)
                return TensorRef(storage.dtype, size)
        raise self.unsafe("builds a tensor in an unusual way")

    def count_bytes(self, count: int) -> None:
        self.bytes_left -= count
        if self.bytes_left < 0:
            raise self.unsafe("uses its storages again and again")

    def make_parameter(self, arguments: tuple[Any, ...]) -> TensorRef:
        match arguments:
            case (TensorRef() as tensor, bool(), OrderedDict() as hooks) if not hooks:
                return tensor
        raise self.unsafe("builds a parameter in an unusual way")

    def make_size(self, arguments: tuple[Any, ...]) -> Shape:
        match arguments:
            case (tuple(size),) if _are_counts(size):
                return size
        raise self.unsafe("builds a size in an unusual way")


def _are_counts(values: tuple[Any, ...]) -> bool:
    return len(values) <= MAX_DIMENSIONS and all(type(n) is int and 0 <= n <= MAX_SIDE for n in values)


def _fits(numel: int, offset: int, size: tuple[Any, ...], stride: tuple[Any, ...]) -> bool:
    """Whether a view lies inside its storage, and is not larger than it (as an expanded view would be)."""
    if not (_are_counts((offset,)) and _are_counts(size) and _are_counts(stride) and len(size) == len(stride)):
        return False
    if math.prod(size) == 0:
        return offset <= numel
    last: int = offset + sum((side - 1) * step for side, step in zip(size, stride, strict=True))
    return last < numel and math.prod(size) <= numel


def _short(size: tuple[Any, ...]) -> str:
    return repr(size) if _are_counts(size) else "beyond reason"


_PUSH_ARGUMENT = frozenset({"BINUNICODE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"})
_PUSH_NEW: dict[str, Callable[[], Any]] = {
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
}
_STEPS: dict[str, Callable[[_Scan, Any], None]] = {
    "PROTO": _Scan.proto,
    "MARK": _Scan.mark,
    "TUPLE": _Scan.tuple_to_mark,
    "TUPLE1": lambda scan, _: scan.tuple_of(1),
    "TUPLE2": lambda scan, _: scan.tuple_of(2),
    "TUPLE3": lambda scan, _: scan.tuple_of(3),
    "BINPUT": _Scan.put,
    "LONG_BINPUT": _Scan.put,
    "BINGET": _Scan.get,
    "LONG_BINGET": _Scan.get,
    "APPEND": _Scan.append,
    "APPENDS": _Scan.appends,
    "SETITEM": _Scan.set_item,
    "SETITEMS": _Scan.set_items,
    "GLOBAL": _Scan.find_global,
    "REDUCE": _Scan.reduce,
    "BUILD": _Scan.build,
    "BINPERSID": _Scan.storage,
    "STOP": lambda _scan, _: None,
}
_FUNCTIONS: dict[str, Callable[[_Scan, tuple[Any, ...]], Any]] = {
    "collections OrderedDict": _Scan.make_dictionary,
    "torch._utils _rebuild_tensor_v2": _Scan.make_tensor,
    "torch._utils _rebuild_parameter": _Scan.make_parameter,
    "torch Size": _Scan.make_size,
}
