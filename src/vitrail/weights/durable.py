"""Writing a file so that it is there whole or not at all, also after a power cut."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import SafetensorError

from vitrail.data.placing import sync
from vitrail.errors import FileError

if TYPE_CHECKING:
    import torch


def write_atomically(path: str | os.PathLike[str], writer: Callable[[Path], None]) -> None:
    """`writer` fills a temporary file beside `path`; only when that is safe on disk does it take the name.

    On any error the old file is as it was and nothing partial is left.
    """
    target = Path(path)
    if "\0" in str(target):
        raise FileError("cannot be written: no file can have this name", where=path, fix="choose another name")
    temporary = target.parent / f".vitrail-{secrets.token_hex(8)}.tmp"
    try:
        mode = _create(temporary)
        try:
            writer(temporary)
            temporary.chmod(mode)  # a writer may put a private file in its place, as safetensors does
            sync(temporary)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
        sync(target.parent)
    except (OSError, SafetensorError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise FileError(
            f"cannot be written: {reason}", where=path, fix="check the folder, its permissions and the free space"
        ) from error


def write_safetensors(
    path: str | os.PathLike[str], tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str] | None = None
) -> None:
    """Tensors and text to one safetensors file, atomically; views and shared storages are written out in full."""
    from safetensors.torch import save_file  # brings torch, which text files do not need

    plain = _unshared(tensors)
    text = dict(metadata) if metadata else None
    write_atomically(path, lambda temporary: save_file(plain, temporary, metadata=text))


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Text to a UTF-8 file, atomically."""

    def save(temporary: Path) -> None:
        temporary.write_text(text, encoding="utf-8")

    write_atomically(path, save)


def _unshared(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Contiguous tensors on the CPU, each with a storage of its own, as safetensors asks for."""
    seen: set[int] = set()
    plain = {}
    for name, tensor in tensors.items():
        own = tensor.detach().cpu().contiguous()
        address = own.untyped_storage().data_ptr()
        plain[name] = own.clone() if address in seen else own
        seen.add(address)
    return plain


def _create(path: Path) -> int:
    """An empty file, and the mode that the umask gave it: `tempfile` would make one for the owner only."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    return path.stat().st_mode & 0o777
