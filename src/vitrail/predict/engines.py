"""What computes the logits. All engines take the same pictures, so that one can stand in for another."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from vitrail.config import Preprocessing
from vitrail.data.examples import Pixels
from vitrail.data.prepare import normalise
from vitrail.errors import MissingExtra, WeightsError
from vitrail.predict.exported import EXPORT, Exported, check_shapes, check_size, read_exported
from vitrail.weights.description import KEY
from vitrail.weights.onnx_split import split
from vitrail.weights.safe_onnx import MAX_BYTES, read_onnx

if TYPE_CHECKING:
    from vitrail.model import Model

Logits = NDArray[np.float32]
MOST_BIN = 2**35


class Engine(Protocol):
    """Prepared pictures (N x rows x columns x channels, 0 to 255) to logits (N x K)."""

    @property
    def name(self) -> str: ...

    def __call__(self, batch: Pixels) -> Logits: ...


class Mirrored:
    """Also shows each picture the other way round, and takes the mean of both answers: a little more accurate where
    left and right do not matter, at twice the cost."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.name = engine, engine.name

    def __call__(self, batch: Pixels) -> Logits:
        both: Logits = self.engine(batch) + self.engine(batch[:, :, ::-1])
        return both * np.float32(0.5)


class TorchEngine:
    """The model itself, in evaluation mode, where and in the precision it is in; compiled first, where asked."""

    def __init__(self, model: Model, preprocessing: Preprocessing, *, compiled: bool = False) -> None:
        self.model, self.preprocessing = model, preprocessing
        self.name = "compile" if compiled else "torch"
        self._run: Callable[..., Any] = model
        if compiled:
            import torch

            self._run = torch.compile(model)

    def __call__(self, batch: Pixels) -> Logits:
        import torch

        images = torch.from_numpy(normalise(batch, self.preprocessing)).to(next(self.model.parameters()))
        was_training = self.model.training
        self.model.eval()
        try:
            with torch.inference_mode():
                logits = self._run(images)
        finally:
            self.model.train(was_training)
        answers: Logits = logits.float().cpu().numpy()
        return answers


class OnnxEngine:
    """ONNX Runtime on the CPU, with so many `threads` a call, or all cores; several may call at once.

    `content` is a graph that `read_onnx` or our own exporter vouches for.
    """

    name = "onnx"

    def __init__(self, content: bytes, exported: Exported, source: str, *, threads: int | None = None) -> None:
        try:
            import onnxruntime as runtime
        except ImportError:
            raise MissingExtra("onnxruntime", "export") from None
        options = runtime.SessionOptions()
        options.log_severity_level = 3  # errors; they come as exceptions too
        if threads is not None:
            options.intra_op_num_threads = threads
        # Threads that wait for work spin this long; the default is so long that a busy machine does nothing else.
        options.add_session_config_entry("session.intra_op.spin_duration_us", "100")
        graph, matrices = split(content)
        given = [runtime.OrtValue.ortvalue_from_numpy(matrix) for matrix in matrices.values()]
        try:
            options.add_external_initializers(list(matrices), given)
            self.session = runtime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # the runtime has a class of its own for every fault, and no common one
            raise WeightsError(f"ONNX Runtime cannot run it ({error})", where=source, fix=EXPORT) from error
        inputs, outputs = self.session.get_inputs(), self.session.get_outputs()
        if len(inputs) != 1 or len(outputs) != 1:
            raise WeightsError("is not one graph from pictures to logits", where=source, fix=EXPORT)
        check_shapes(exported, inputs[0].shape, outputs[0].shape, source)
        self.exported, self._input = exported, inputs[0].name

    @classmethod
    def open(cls, path: Path, *, threads: int | None = None) -> Self:
        content, metadata = read_onnx(path)
        return cls(content, read_exported(metadata, str(path)), str(path), threads=threads)

    def __call__(self, batch: Pixels) -> Logits:
        return self.run(_input(batch, self.exported))

    def run(self, images: NDArray[Any]) -> Logits:
        """Of pictures in the form that the graph takes."""
        answers: Logits = self.session.run(None, {self._input: images})[0]
        return answers


class OpenVinoEngine:
    """OpenVINO on the CPU, in full precision: so many calls at once as it has `streams`, which share the threads.

    `model` is one of OpenVINO's, still to be compiled. For one picture it is compiled apart, because with every shape
    known it is faster (LOG.md); either form is made when it is first needed, and costs the memory of the weights.
    """

    name = "openvino"

    def __init__(
        self, model: Any, exported: Exported, source: str, *, threads: int | None = None, streams: int = 1
    ) -> None:
        inside, outside = (
            [side.get_length() if side.is_static else -1 for side in port.partial_shape]
            for port in (model.input(), model.output())
        )
        check_shapes(exported, inside, outside, source)
        self.exported = exported
        self._model, self._shape, self._source = model, inside[1:], source
        self._threads, self._streams = threads, streams
        self._forms: dict[bool, SimpleQueue[Any]] = {}  # for one picture, and for any number
        self._making = Lock()

    @classmethod
    def open(cls, path: Path, *, streams: int = 1) -> Self:
        check_size(path, MAX_BYTES)
        check_size(path.with_suffix(".bin"), MOST_BIN)
        try:
            model = openvino_core().read_model(path)
            said = str(model.get_rt_info([KEY]).value) if model.has_rt_info([KEY]) else None
        except RuntimeError as error:
            raise WeightsError(f"OpenVINO cannot read it ({error})", where=path, fix=EXPORT) from error
        return cls(model, read_exported({} if said is None else {KEY: said}, str(path)), str(path), streams=streams)

    def __call__(self, batch: Pixels) -> Logits:
        return self.run(_input(batch, self.exported))

    def run(self, images: NDArray[Any]) -> Logits:
        """Of pictures in the form that the graph takes."""
        free = self._requests(len(images) == 1)
        request = free.get()  # it has one place for its inputs: one caller at a time
        try:
            answers: Logits = request.infer([images])[0].copy()
        finally:
            free.put(request)
        return answers

    def _requests(self, alone: bool) -> SimpleQueue[Any]:
        with self._making:
            if alone not in self._forms:
                self._forms[alone] = self._compile(alone)
        return self._forms[alone]

    def _compile(self, alone: bool) -> SimpleQueue[Any]:
        settings = {"INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": str(self._streams)}
        if self._threads is not None:
            settings["INFERENCE_NUM_THREADS"] = str(self._threads)
        try:
            model = self._model
            if alone:
                model = model.clone()
                model.reshape([1, *self._shape])
            compiled = openvino_core().compile_model(model, "CPU", settings)
        except RuntimeError as error:
            raise WeightsError(f"OpenVINO cannot run it ({error})", where=self._source, fix=EXPORT) from error
        free: SimpleQueue[Any] = SimpleQueue()
        for _ in range(self._streams):
            free.put(compiled.create_infer_request())
        return free


def import_openvino() -> Any:
    try:
        import openvino
    except ImportError:
        raise MissingExtra("openvino", "openvino") from None
    return openvino


def openvino_core() -> Any:
    """The only one, kept until the process ends.

    A core that first compiles gives its thread a stack for signals, and takes it back when it goes. Of two cores, the
    second gives back the stack of the first, which may be gone: the next Ctrl-C would be a segmentation fault.
    """
    with _making_core:
        return _core()


_making_core = Lock()


@cache
def _core() -> Any:
    return import_openvino().Core()


def _input(batch: Pixels, exported: Exported) -> NDArray[Any]:
    return np.ascontiguousarray(batch) if exported.pixels else normalise(batch, exported.preprocessing)
