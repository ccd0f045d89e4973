"""Every kind of bad picture is refused by name, no good one is, and no file is changed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.picture_kinds import (
    BAD_BYTES,
    BAD_EXIF,
    BAD_PATHS,
    GOOD_KINDS,
    draw,
    encode,
    good_files,
    jpeg,
    orientation,
    png16,
    tiff,
    with_exif,
)
from vitrail.data import images
from vitrail.data.images import Limits, open_image, to_array
from vitrail.errors import ConfigError, ImageError

# Bad


def refusal(source: str | Path | bytes, **options: Any) -> str:
    with pytest.raises(ImageError) as caught:
        open_image(source, **options)
    line = str(caught.value)
    assert caught.value.fix
    assert line.isprintable()
    assert len(line) < 500
    return line


def test_the_promised_number_of_bad_kinds() -> None:
    assert len(BAD_BYTES) + len(BAD_PATHS) + len(CHANGES) >= 46


@pytest.mark.parametrize("kind", BAD_BYTES)
def test_bad_file_is_refused_by_name_and_left_alone(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"{kind}.jpg"
    data = BAD_BYTES[kind]()
    path.write_bytes(data)
    assert path.name in refusal(path)
    assert refusal(data).startswith("picture in memory: ")
    assert path.read_bytes() == data


@pytest.mark.parametrize("kind", BAD_PATHS)
def test_what_is_no_file_is_refused_without_waiting(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"{kind}.jpg"
    BAD_PATHS[kind](path)
    start = time.monotonic()
    assert path.name in refusal(path)
    assert time.monotonic() - start < 1


def test_names_that_no_file_can_have() -> None:
    assert r"a\x00b.jpg: " in refusal("a\0b.jpg")
    assert r"a\nb.jpg: no such file" in refusal("a\nb.jpg")
    assert "cannot be read" in refusal("a" * 300)


TRY_AS_NOBODY = """
    import os, sys
    from vitrail.data.images import open_image
    from vitrail.errors import ImageError
    os.chdir(sys.argv[1])
    if os.getuid() == 0:
        os.setgroups([]); os.setgid(65534); os.setuid(65534)
    try:
        open_image("locked.jpg")
    except ImageError as error:
        print(error)
"""


def test_unreadable_file(tmp_path: Path) -> None:
    (tmp_path / "locked.jpg").write_bytes(jpeg())
    (tmp_path / "locked.jpg").chmod(0)
    tmp_path.chmod(0o755)
    done = run(TRY_AS_NOBODY, tmp_path)
    if "os.setg" in done.stderr or "os.setuid" in done.stderr:
        pytest.skip("runs as root, which may read everything, and may not become anyone else")
    assert done.stdout.startswith("locked.jpg: no permission to read"), done.stderr


def run(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def grow(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"more")


def shrink(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 10)


def rewrite(path: Path) -> None:
    path.write_bytes(jpeg())


CHANGES = (grow, shrink, rewrite)


@pytest.mark.parametrize("change", CHANGES)
def test_file_that_changes_while_it_is_read(
    change: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "busy.jpg"
    path.write_bytes(jpeg())
    os.utime(path, (0, 0))
    looks = []

    def fstat(descriptor: int) -> os.stat_result:
        looks.append(os.stat(descriptor))
        if len(looks) == 1:
            change(path)
        return looks[-1]

    monkeypatch.setattr(images.os, "fstat", fstat)
    assert "busy.jpg: the file changed while it was being read" in refusal(path)


def test_a_pipe_put_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, regular = tmp_path / "swapped.jpg", tmp_path / "regular.jpg"
    os.mkfifo(path)
    regular.write_bytes(jpeg())
    status = regular.stat()
    monkeypatch.setattr(images.Path, "stat", lambda _: status)
    assert "swapped.jpg: this is a named pipe" in refusal(path)


MEASURE = """
    import sys
    from pathlib import Path
    from vitrail.data.images import open_image
    from vitrail.errors import ImageError

    def peak():
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024

    good, *bombs = sys.argv[1:]
    open_image(good)
    for path in bombs:
        before = peak()
        try:
            open_image(path)
        except ImageError:
            print(peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_bombs_stay_small_in_memory(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.jpg" for number in range(sum("bomb" in kind for kind in BAD_BYTES))]
    for path, kind in zip(paths, (kind for kind in BAD_BYTES if "bomb" in kind), strict=True):
        path.write_bytes(BAD_BYTES[kind]())
    (tmp_path / "good.jpg").write_bytes(jpeg())
    done = run(MEASURE, tmp_path / "good.jpg", *paths)
    megabytes = [float(line) for line in done.stdout.split()]
    assert len(megabytes) == len(paths) >= 11, done.stderr
    assert sum(megabytes) < 50


def test_limits_can_be_set() -> None:
    data = encode(draw(20, 40), "PNG")
    for limits in (Limits(max_bytes=100), Limits(max_pixels=799), Limits(max_aspect=1.9)):
        refusal(data, limits=limits)
    assert open_image(data, limits=Limits(len(data), 800, 2.0)).size == (40, 20)


# Good


def test_none_of_1000_good_files_is_refused_or_changed(tmp_path: Path) -> None:
    opened = 0
    for name, (rows, columns), data in good_files(1000):
        path = tmp_path / name
        path.write_bytes(data)
        path.chmod(0o444)
        before = path.stat()
        image = open_image(path)
        assert (image.mode in ("L", "RGB"), image.size) == (True, (columns, rows)), name
        after = path.stat()
        assert (after.st_mtime_ns, stat.S_IMODE(after.st_mode)) == (before.st_mtime_ns, 0o444)
        assert hashlib.sha256(path.read_bytes()).digest() == hashlib.sha256(data).digest()
        opened += 1
    assert opened == 1000
    assert len(list(tmp_path.iterdir())) == 1000


@pytest.mark.parametrize(("turn", "least"), [(1, (30, 100)), (6, (100, 30))])
def test_draft_is_smaller_but_never_below_the_size_asked_for(turn: int, least: tuple[int, int]) -> None:
    data = encode(draw(240, 800), "JPEG", exif=orientation(turn))
    whole, quick = open_image(data), open_image(data, draft=least)
    assert quick.size == (whole.width // 8, whole.height // 8) == (least[1], least[0])
    assert open_image(data, draft=(least[0] + 1, least[1])).size == (whole.width // 4, whole.height // 4)
    assert open_image(data, draft=(5000, 5000)).size == whole.size
    shrunk = to_array(whole.reduce(8)).astype(int)
    assert np.abs(to_array(quick) - shrunk).mean() < 3


def test_draft_changes_no_other_kind() -> None:
    data = encode(draw(), "PNG")
    np.testing.assert_array_equal(to_array(open_image(data, draft=(1, 1))), draw())
    with pytest.raises(ConfigError, match="draft"):
        open_image(data, draft=(0, 5))


def test_array_of_as_many_channels_as_asked_for() -> None:
    colour, grey = open_image(encode(draw(), "PNG")), open_image(encode(draw(channels=1), "PNG"))
    assert [to_array(image).shape[-1] for image in (colour, grey)] == [3, 1]
    assert [to_array(colour, 1).shape, to_array(grey, 3).shape] == [(48, 64, 1), (48, 64, 3)]
    assert to_array(colour).dtype == np.uint8
    assert to_array(colour).flags.writeable
    with pytest.raises(ConfigError, match="channels=4"):
        to_array(colour, 4)


# Whatever comes


def test_no_warning_leaks_and_no_filter_is_lost_between_threads() -> None:
    data = with_exif(jpeg(), BAD_EXIF["too many entries"])
    filters = list(warnings.filters)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(50):
                open_image(data)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert warnings.filters == filters


SEEDS = [data for _, _, data in good_files(len(GOOD_KINDS))]
SEEDS += [with_exif(jpeg(), orientation(6)[6:]), png16(draw(4, 4, 1, top=65535)), tiff(4, 4, bytes(32), bits=(16,))]


@settings(max_examples=300, deadline=2000)
@given(
    seed=st.sampled_from(SEEDS),
    edits=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=8),
    keep=st.one_of(st.just(1.0), st.floats(0, 1)),
)
def test_mutated_pictures_open_or_are_refused(seed: bytes, edits: list[tuple[int, int]], keep: float) -> None:
    data = bytearray(seed)
    for position, value in edits:
        data[position % len(data)] = value
    with contextlib.suppress(ImageError):
        assert open_image(bytes(data[: round(len(data) * keep)])).mode in ("L", "RGB")
