"""Models by name from a Hugging Face hub: `hf-hub:owner/name`, optionally `@revision`."""

from __future__ import annotations

from pathlib import Path

from vitrail.errors import FileError, MissingExtra

FILES = ("config.json", "preprocessor_config.json", "model.safetensors", "pytorch_model.bin")


def download(name: str) -> Path:
    """The folder in the local cache that holds the repository's weights and configuration."""
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise MissingExtra("huggingface_hub", "hub") from None
    repository, _, revision = name.partition("@")
    if repository.count("/") != 1:
        raise FileError("is no hub name", where=f"hf-hub:{name}", fix="write hf-hub:owner/name")
    try:
        return Path(snapshot_download(repository, revision=revision or None, allow_patterns=list(FILES)))
    except Exception as error:  # the client's own family is wide: network, HTTP, authentication, validation
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise FileError(
            f"cannot be fetched: {reason}", where=f"hf-hub:{name}", fix="check the name, the network and your access"
        ) from error
