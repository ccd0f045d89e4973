"""`/v2`: the Open Inference Protocol, for programs that speak to Triton or KServe. Tensors as JSON or as bytes.

One input, `pixels` (UINT8, N x rows x columns x channels, as `/v2/models/NAME` says), and two outputs, `logits` and
`probabilities` (FP32, N x classes). With the extension for binary data, tensors follow the JSON as plain bytes, and the
header `Inference-Header-Content-Length` says where the JSON ends.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
from fastapi import APIRouter, Request
from numpy.typing import NDArray
from pydantic import BaseModel, Field, ValidationError
from starlette.responses import Response

from vitrail.data.examples import Pixels
from vitrail.serve.problems import Refused
from vitrail.serve.service import Service
from vitrail.serve.v1 import REFUSALS
from vitrail.version import __version__

INPUT, OUTPUTS = "pixels", ("logits", "probabilities")
JSON_ENDS = "Inference-Header-Content-Length"

Floats = NDArray[np.float32]


class Tensor(BaseModel):
    name: str
    datatype: str
    shape: list[int] = Field(min_length=1, max_length=8)
    parameters: dict[str, Any] = {}
    data: list[Any] | None = None


class Wanted(BaseModel):
    name: str
    parameters: dict[str, Any] = {}


class Inference(BaseModel):
    id: str | None = Field(None, max_length=200)
    parameters: dict[str, Any] = {}
    inputs: list[Tensor]
    outputs: list[Wanted] = []


class Inferred(BaseModel):
    model_name: str
    model_version: str
    id: str | None = None
    outputs: list[Tensor]


class ServerFacts(BaseModel):
    name: str
    version: str
    extensions: list[str]


class TensorFacts(BaseModel):
    name: str
    datatype: str
    shape: list[int]


class ModelFacts(BaseModel):
    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorFacts]
    outputs: list[TensorFacts]


def whole(schema: Any, parts: dict[str, Any]) -> Any:
    """A schema with its parts in their places, as one that stands inside another document must be."""
    if isinstance(schema, list):
        return [whole(each, parts) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return whole(parts[schema["$ref"].rpartition("/")[2]], parts)
    return {name: whole(each, parts) for name, each in schema.items() if name != "$defs"}


ASKED = Inference.model_json_schema()
JSON = {"application/json": {"schema": whole(ASKED, ASKED["$defs"])}}
BODY = {"requestBody": {"required": True, "content": JSON}}
BINARY: dict[int | str, dict[str, Any]] = {200: {"content": {"application/octet-stream": {}}}}


def routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v2", tags=["tensors"], responses=REFUSALS)

    here = f"/models/{service.settings.name}"

    @router.get("", response_model=ServerFacts)
    async def server() -> Any:
        """Which server this is."""
        return {"name": "vitrail", "version": __version__, "extensions": ["binary_tensor_data"]}

    @router.get(here, response_model=ModelFacts)
    async def model() -> Any:
        """Names, types and shapes of the model's tensors; -1 is any number of pictures."""
        return describe(service)

    @router.get(f"{here}/ready", response_class=Response)
    async def model_ready() -> Response:
        """200 while new requests are welcome."""
        return Response(status_code=503 if service.gate.draining else 200)

    @router.post(f"{here}/infer", response_model=Inferred, responses=BINARY, openapi_extra=BODY)
    async def infer(request: Request) -> Response:
        """Logits and probabilities of prepared pictures."""
        body, ends = await request.body(), request.headers.get(JSON_ENDS)
        asked, pictures = await service.aside(lambda: understood(body, ends, service))
        with service.gate.places(len(pictures) - 1):
            logits = await service.batcher.logits(list(pictures))
        found = {"logits": logits, "probabilities": service.predictor.decision.probabilities(logits)}
        return answer(asked, found, service.settings.name)

    return router


def describe(service: Service) -> dict[str, Any]:
    classes = len(service.predictor.classes)
    return {
        "name": service.settings.name,
        "versions": ["1"],
        "platform": f"vitrail_{service.predictor.engine.name}",
        "inputs": [{"name": INPUT, "datatype": "UINT8", "shape": [-1, *service.shape]}],
        "outputs": [{"name": name, "datatype": "FP32", "shape": [-1, classes]} for name in OUTPUTS],
    }


def understood(body: bytes, ends: str | None, service: Service) -> tuple[Inference, Pixels]:
    """What is asked, and the pictures (N x rows x columns x channels), every claim about them checked."""
    head, rest = split(body, ends)
    try:
        asked = Inference.model_validate_json(head)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise Refused(400, f"{'.'.join(map(str, first['loc']))}: {first['msg']}".lstrip(": ")) from None
    if [tensor.name for tensor in asked.inputs] != [INPUT]:
        raise Refused(400, f"send one input, called {INPUT}")
    for wanted in asked.outputs:
        if wanted.name not in OUTPUTS:
            raise Refused(400, "outputs are " + " and ".join(OUTPUTS))
    tensor = asked.inputs[0]
    check_shape(tensor, service)
    return asked, from_bytes(tensor, rest) if tensor.data is None else from_json(tensor, rest)


def split(body: bytes, ends: str | None) -> tuple[bytes, bytes]:
    """The JSON, and the bytes that follow it."""
    if ends is None:
        return body, b""
    if not (ends.isascii() and ends.isdigit() and len(ends) < 12 and int(ends) <= len(body)):
        raise Refused(400, f"{JSON_ENDS} must be a number of bytes that were sent")
    return body[: int(ends)], body[int(ends) :]


def check_shape(tensor: Tensor, service: Service) -> None:
    if tensor.datatype != "UINT8":
        raise Refused(400, f"{INPUT} must be UINT8, from 0 to 255")
    count, *sides = tensor.shape
    if tuple(sides) != service.shape or count < 1:
        raise Refused(400, f"{INPUT} must have the shape N, " + ", ".join(map(str, service.shape)))
    if count > service.most_pictures:
        raise Refused(413, f"more than {service.most_pictures} pictures at once; send them in several requests")


def from_bytes(tensor: Tensor, rest: bytes) -> Pixels:
    size = tensor.parameters.get("binary_data_size")
    if isinstance(size, bool) or size != len(rest) or size != math.prod(tensor.shape):
        raise Refused(400, f"{INPUT} needs data, or binary_data_size and as many bytes as its shape says")
    return np.frombuffer(rest, np.uint8).reshape(tensor.shape)


def from_json(tensor: Tensor, rest: bytes) -> Pixels:
    """Flat, or nested as the shape is."""
    if rest or "binary_data_size" in tensor.parameters:
        raise Refused(400, "send data or bytes, not both")
    try:
        values = np.array(tensor.data)
    except ValueError:  # lists of several lengths
        values = np.empty(0)
    if values.dtype.kind != "i" or values.size != math.prod(tensor.shape) or values.min() < 0 or values.max() > 255:
        raise Refused(400, f"the data of {INPUT} must be whole numbers from 0 to 255, as many as its shape says")
    return values.astype(np.uint8).reshape(tensor.shape)


def answer(asked: Inference, found: dict[str, Floats], model: str) -> Response:
    """JSON; outputs that are wanted as bytes follow it."""
    usual = asked.parameters.get("binary_data_output") is True
    wanted = asked.outputs or [Wanted(name=name) for name in OUTPUTS]
    outputs, rest = [], b""
    for output in wanted:
        values = np.asarray(found[output.name], "<f4")
        described = {"name": output.name, "datatype": "FP32", "shape": list(values.shape)}
        if output.parameters.get("binary_data", usual) is True:
            data = values.tobytes()
            rest += data
            outputs.append({**described, "parameters": {"binary_data_size": len(data)}})
        else:
            outputs.append({**described, "data": values.ravel().tolist()})
    named = {} if asked.id is None else {"id": asked.id}
    head = json.dumps({"model_name": model, "model_version": "1", **named, "outputs": outputs}).encode()
    if not rest:
        return Response(head, media_type="application/json")
    return Response(head + rest, media_type="application/octet-stream", headers={JSON_ENDS: str(len(head))})
