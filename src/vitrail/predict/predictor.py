"""Picture in, labelled answer out: `load(MODEL).predict("rex.jpg")`. Torch is imported when a torch model is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from vitrail.config import Preprocessing
from vitrail.data.examples import Pixels
from vitrail.errors import ConfigError, ImageError
from vitrail.evaluate.metrics import Floats
from vitrail.predict.answers import Decision, Prediction
from vitrail.predict.engines import Engine, Mirrored, OnnxEngine, OpenVinoEngine, TorchEngine
from vitrail.predict.exported import Kind, kind_of
from vitrail.predict.many import BATCH_SIZE, THREADS, stream_logits
from vitrail.predict.pictures import Source, read_picture

if TYPE_CHECKING:
    from vitrail.model import Model
    from vitrail.model.sizes import ModelConfig
    from vitrail.weights.artefact import Artefact

S = TypeVar("S", bound=Source)


def load(source: str | Path, *, mirror: bool = False, compiled: bool = False, **settings: Any) -> Predictor:
    """A model ready for use, from a file, a run, a folder in timm's or Hugging Face's layout, or hf-hub:owner/name.

    Files of `vitrail export` (.onnx, OpenVINO's .xml) are run by what they were made for, without torch. `settings` are
    those of `vitrail.weights.load.load`: `image_size`, `num_classes`, `channels`, `any_size`, `check`, and what foreign
    weights cannot tell, such as `heads`.
    """
    kind = kind_of(source)
    if kind is not None:
        if settings or compiled:
            fix = "leave them out, or load the model it was exported from"
            raise ConfigError(f"an exported model has no settings to change ({', '.join(settings)})", fix=fix)
        return Predictor.of_exported(EXPORTED[kind].open(Path(source)), mirror=mirror)
    from vitrail.weights.load import load as load_artefact

    return Predictor.of(load_artefact(source, **settings), mirror=mirror, compiled=compiled)


EXPORTED: dict[Kind, type[OnnxEngine] | type[OpenVinoEngine]] = {"onnx": OnnxEngine, "openvino": OpenVinoEngine}


class Predictor:
    """A model that can be asked. `notes` say what its file did not, and what is done instead."""

    def __init__(
        self,
        engine: Engine,
        decision: Decision,
        preprocessing: Preprocessing,
        channels: int,
        *,
        notes: tuple[str, ...] = (),
        artefact: Artefact | None = None,
    ) -> None:
        self.engine, self.decision, self.preprocessing, self.channels = engine, decision, preprocessing, channels
        self.notes, self._artefact = notes, artefact

    @classmethod
    def of_exported(cls, engine: OnnxEngine | OpenVinoEngine, *, mirror: bool = False) -> Predictor:
        """With an engine that brings all it needs."""
        exported = engine.exported
        run = Mirrored(engine) if mirror else engine
        return cls(run, exported.decision, exported.preprocessing, exported.channels)

    @classmethod
    def of(cls, artefact: Artefact, *, mirror: bool = False, compiled: bool = False) -> Predictor:
        """With torch as the engine."""
        config = artefact.model.config
        preprocessing = artefact.preprocessing or papers_preprocessing(config)
        decision = Decision(
            classes=artefact.classes or tuple(map(str, range(config.num_classes))),
            temperature=artefact.temperature or 1.0,
            unknown_below=artefact.unknown_below,
            multi_label=artefact.multi_label,
            thresholds=artefact.thresholds,
        )
        torch_engine = TorchEngine(artefact.model, preprocessing, compiled=compiled)
        engine = Mirrored(torch_engine) if mirror else torch_engine
        return cls(engine, decision, preprocessing, config.channels, notes=_notes(artefact), artefact=artefact)

    def predict(self, source: Source, top: int = 5) -> Prediction:
        """What is on a picture: a path, the bytes of a file, a Pillow image, or uint8 pixels."""
        self._check_classes()
        return self.decision.answers(self.engine(self.read(source)[None]), top)[0]

    def predict_many(
        self, sources: Iterable[S], *, batch_size: int = BATCH_SIZE, threads: int = THREADS, top: int = 5
    ) -> Iterator[tuple[S, Prediction | ImageError]]:
        """Each source with its answer, or with why it cannot be read, in order and in constant memory."""
        self._check_classes()
        found = stream_logits(self.engine, self.read, sources, batch_size=batch_size, threads=threads)
        for source, logits in found:
            yield source, logits if isinstance(logits, ImageError) else self.decision.answers(logits[None], top)[0]

    def probabilities(self, batch: Pixels) -> Floats:
        """Of prepared pictures (N x rows x columns x channels, 0 to 255): N x K, calibrated."""
        return self.decision.probabilities(self.engine(batch))

    def read(self, source: Source) -> Pixels:
        """A picture as the model takes it, rows x columns x channels."""
        return read_picture(source, self.preprocessing, self.channels)

    @property
    def classes(self) -> tuple[str, ...]:
        return self.decision.classes

    @property
    def artefact(self) -> Artefact:
        """The model with all that its file holds."""
        if self._artefact is None:
            raise ConfigError(f"the {self.engine.name} engine shows no weights", fix="load the model's own file")
        return self._artefact

    @property
    def model(self) -> Model:
        return self.artefact.model

    @property
    def source(self) -> str:
        return self.artefact.source

    def check(self) -> float:
        """Compare the answers stored in the file with the model's: `Artefact.check`."""
        return self.artefact.check()

    def save(self, path: str | Path) -> None:
        self.artefact.save(path)

    def _check_classes(self) -> None:
        if not self.classes:
            raise ConfigError("the model has no classes to choose from", fix="train a head for it, or use its features")


def papers_preprocessing(config: ModelConfig) -> Preprocessing:
    """The paper's, for a model that comes without: pixels from -1 to 1."""
    half = (0.5,) * config.channels
    return Preprocessing(size=config.image_size, mean=half, std=half)


def _notes(artefact: Artefact) -> tuple[str, ...]:
    said = {
        "no class names are stored, so classes are called by their numbers": artefact.classes is None,
        "no preprocessing is stored, so pixels go in from -1 to 1, as in the paper": artefact.preprocessing is None,
    }
    return tuple(note for note, so in said.items() if so)
