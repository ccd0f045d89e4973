"""From the bytes of 2000 x 1500 JPEGs to 224 x 224 pixels: ours beside the plain Pillow path, on one core.

    python benchmarks/decode.py [--rounds 15]

The ways take turns on every photo, so that a busy machine slows all of them alike. Times are of the processor, in
milliseconds a photo: medians, and the ratio of the medians to ours. Prints one JSON document.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import time
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
from PIL import Image

from vitrail.config import Preprocessing
from vitrail.data.images import open_image, to_array
from vitrail.data.prepare import draft_size, prepare

RULE = Preprocessing((224, 224), (0.5, 0.5, 0.5), (0.5, 0.5, 0.5), crop=0.875)


def photo(seed: int) -> bytes:
    """Smooth colours with the grain of a camera: about 0.7 MB, as photos of this size are."""
    random = np.random.default_rng(seed)
    colours = Image.fromarray(random.integers(0, 256, (40, 53, 3), dtype=np.uint8)).resize((2000, 1500))
    grain = random.normal(0, 6, (1500, 2000, 1))
    pixels = (np.asarray(colours) + grain).clip(0, 255).astype(np.uint8)
    with io.BytesIO() as file:
        Image.fromarray(pixels).save(file, "JPEG", quality=85)
        return file.getvalue()


def ours(data: bytes) -> np.ndarray:
    return prepare(to_array(open_image(data, draft=draft_size(RULE)), 3), RULE)


def whole(data: bytes) -> np.ndarray:
    """Ours without a draft: what the checks of `open_image` cost."""
    return prepare(to_array(open_image(data), 3), RULE)


def pillow(data: bytes) -> np.ndarray:
    image = Image.open(io.BytesIO(data)).convert("RGB")
    scale = 256 / min(image.size)
    image = image.resize((int(image.width * scale), int(image.height * scale)), Image.Resampling.BICUBIC)
    left, top = (image.width - 224) // 2, (image.height - 224) // 2
    return np.asarray(image.crop((left, top, left + 224, top + 224)))


def simplejpeg(data: bytes) -> np.ndarray:
    """libjpeg-turbo's own scaled decoding, without any check."""
    from simplejpeg import decode_jpeg

    return prepare(decode_jpeg(data, min_height=draft_size(RULE)[0], min_width=draft_size(RULE)[1]), RULE)


def measure(rounds: int) -> dict[str, object]:
    ways: list[Callable[[bytes], np.ndarray]] = [ours, pillow, whole]
    if find_spec("simplejpeg"):
        ways.append(simplejpeg)
    photos = [photo(seed) for seed in range(3)]
    times: dict[str, list[float]] = {way.__name__: [] for way in ways}
    for _ in range(rounds):
        for data in photos:
            for way in ways:
                start = time.process_time()
                way(data)
                times[way.__name__].append(1000 * (time.process_time() - start))
    medians = {name: statistics.median(values) for name, values in times.items()}
    return {
        "photo_bytes": [len(data) for data in photos],
        "rounds": rounds,
        "milliseconds": {name: round(value, 2) for name, value in medians.items()},
        "ratio": {name: round(value / medians["ours"], 2) for name, value in medians.items()},
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Decoding beside plain Pillow.")
    parser.add_argument("--rounds", type=int, default=15)
    print(json.dumps(measure(parser.parse_args().rounds), indent=2))
