"""`/v1`: pictures in, answers in words out."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.datastructures import UploadFile

from vitrail.data.examples import Pixels
from vitrail.errors import ImageError, one_line
from vitrail.predict.answers import Prediction
from vitrail.serve.look import attention_maps, explaining, heat_of, overlay, shows_attention
from vitrail.serve.problems import Refused, said
from vitrail.serve.service import Service
from vitrail.version import __version__

Sides = Annotated[list[int], Field(min_length=2, max_length=2)]  # rows, columns


class Problem(BaseModel):
    """Why there is no answer."""

    error: str


class Choice(BaseModel):
    label: str
    probability: float


class Answer(BaseModel):
    """Of one picture: the fields of a prediction, or `error`. `overlay` is a PNG in a data: address."""

    file: str | None = None
    error: str | None = None
    label: str | None = None
    probability: float | None = None
    unknown: bool | None = None
    labels: list[str] | None = None
    top: list[Choice] | None = None
    overlay: str | None = None


class Answers(BaseModel):
    model: str
    predictions: list[Answer]


class NoAnswers(Problem):
    """No picture could be read; or, without `predictions`, the question itself was wrong."""

    predictions: list[Answer] | None = None


class Attention(BaseModel):
    """`layers` x (rows * columns) shares of what the pooled token looks at, from the first layer to the last."""

    grid: Sides
    layers: list[list[float]]


class ModelFacts(BaseModel):
    name: str
    classes: list[str]
    size: Sides
    channels: int
    crop: float
    multi_label: bool
    unknown_below: float | None
    engine: str
    batch: int
    streams: int
    attention: bool
    explain: list[str]
    max_pictures: int
    notes: list[str]
    version: str


class Upload(NamedTuple):
    name: str | None
    data: bytes


FILE = {"type": "string", "format": "binary"}
FORM = {"type": "object", "required": ["file"], "properties": {"file": {"type": "array", "items": FILE}}}
PICTURES = {
    "requestBody": {
        "required": True,
        "content": {"multipart/form-data": {"schema": FORM}, "image/*": {"schema": FILE}},
    }
}
PICTURE = {"requestBody": {"required": True, "content": {"image/*": {"schema": FILE}}}}
GUARDED: dict[int | str, dict[str, Any]] = {
    401: {"model": Problem, "description": "A token is needed."},
    403: {"model": Problem, "description": "Asked by another site's page."},
    421: {"model": Problem, "description": "An unknown Host."},
}
REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "Not HTTP, or not multipart, as it should be."},
    413: {"model": Problem, "description": "Too large, or too many pictures."},
    415: {"model": Problem, "description": "Not a kind of body that is taken."},
    422: {"model": NoAnswers, "description": "A wrong parameter, or no picture that can be read."},
    501: {"model": Problem, "description": "The engine shows no weights to explain."},
    503: {"model": Problem, "description": "Full; see Retry-After."},
}


def routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["pictures"], responses=REFUSALS)

    @router.post("/predict", response_model=Answers, response_model_exclude_none=True, openapi_extra=PICTURES)
    async def predict(
        request: Request,
        top: Annotated[int, Query(ge=1, le=1000, description="Classes to give, surest first.")] = 5,
        explain: Annotated[str | None, Query(max_length=40, description="A way to explain; see /v1/model.")] = None,
    ) -> Any:
        """What is on one or more pictures: field `file` of a form, repeatable, or the picture itself as the body."""
        uploads = await uploads_of(request, service.most_pictures)
        check_method(service, explain)
        with service.gate.places(len(uploads) - 1):
            pictures = await asyncio.gather(*(service.read(upload.data) for upload in uploads))
            answers = await answer(service, uploads, pictures, top)
            if explain is not None:
                await add_overlays(service, uploads, pictures, answers, explain)
        if all("error" in found for found in answers):
            what = answers[0]["error"] if len(answers) == 1 else "no picture could be read"
            raise Refused(422, what, predictions=answers)
        return {"model": service.settings.name, "predictions": answers}

    @router.post("/attention", response_model=Attention, openapi_extra=PICTURE)
    async def attention(request: Request) -> Any:
        """What the model looks at in a picture, layer by layer, on its grid of patches."""
        if not shows_attention(service.predictor):
            raise Refused(501, "this model's engine shows no attention; serve the model's own file")
        uploads = await uploads_of(request, 1)
        picture = await service.read(uploads[0].data)
        if isinstance(picture, ImageError):
            raise Refused(422, said(picture))
        with service.lane.place():
            maps = await service.lane.run(lambda: attention_maps(service.predictor, picture))
        return {"grid": maps.shape[1:], "layers": maps.reshape(len(maps), -1).astype(float).round(5).tolist()}

    @router.get("/model", response_model=ModelFacts)
    async def model() -> Any:
        """Which model this is, and what it can be asked."""
        return facts(service)

    return router


async def uploads_of(request: Request, most: int) -> list[Upload]:
    """The files of a form, or the body as one."""
    kind = request.headers.get("content-type", "application/octet-stream").partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        return await form_files(request, most)
    if not kind.startswith("image/") and kind != "application/octet-stream":
        raise Refused(415, "send a picture: the body of an image/ type, or field `file` of a multipart form")
    if not (data := await request.body()):
        raise Refused(422, "the body is empty; send a picture")
    return [Upload(None, data)]


async def form_files(request: Request, most: int) -> list[Upload]:
    async with request.form(max_files=most + 1, max_fields=1) as form:
        parts = form.multi_items()
        if len(parts) > most:
            raise Refused(413, f"more than {most} pictures at once; send them in several requests")
        if not parts or any(name != "file" or not isinstance(part, UploadFile) for name, part in parts):
            raise Refused(422, "send pictures as files in the field `file`, and nothing else")
        files = [part for _, part in parts if isinstance(part, UploadFile)]
        return [Upload(base_name(file.filename or ""), await file.read()) for file in files]


def base_name(name: str) -> str:
    """Of a file as a client called it, to call it the same: without folders and control characters."""
    return one_line(re.split(r"[/\\]", name)[-1][:200])


async def answer(
    service: Service, uploads: list[Upload], pictures: list[Pixels | ImageError], top: int
) -> list[dict[str, Any]]:
    """For each upload its prediction or its error, in their order."""
    good = [picture for picture in pictures if not isinstance(picture, ImageError)]
    answered = service.predictor.decision.answers(await service.batcher.logits(good), top) if good else []
    predictions = iter(answered)
    answers = []
    for upload, picture in zip(uploads, pictures, strict=True):
        found = {"error": said(picture)} if isinstance(picture, ImageError) else counted(service, next(predictions))
        answers.append(found if upload.name is None else {"file": upload.name, **found})
    return answers


def counted(service: Service, prediction: Prediction) -> dict[str, Any]:
    service.metrics.pictures.labels("unknown" if prediction.unknown else "answered").inc()
    return prediction.to_dict()


def check_method(service: Service, method: str | None) -> None:
    if method is None:
        return
    known = explaining(service.predictor)
    if not known:
        raise Refused(501, "this model's engine shows no weights to explain; serve the model's own file")
    if method not in known:
        raise Refused(422, "explain: choose from " + ", ".join(known))


async def add_overlays(
    service: Service, uploads: list[Upload], pictures: list[Pixels | ImageError], answers: list[Any], method: str
) -> None:
    with service.lane.place():
        for upload, picture, found in zip(uploads, pictures, answers, strict=True):
            if not isinstance(picture, ImageError):
                heat = await service.lane.run(partial(heat_of, service.predictor, upload.data, method))
                found["overlay"] = await service.aside(partial(overlay, picture, heat))


def facts(service: Service) -> dict[str, Any]:
    predictor = service.predictor
    return {
        "name": service.settings.name,
        "classes": list(predictor.classes),
        "size": predictor.preprocessing.size,
        "channels": predictor.channels,
        "crop": predictor.preprocessing.crop,
        "multi_label": predictor.decision.multi_label,
        "unknown_below": predictor.decision.unknown_below,
        "engine": predictor.engine.name,
        "batch": service.pace.batch,
        "streams": service.pace.streams,
        "attention": shows_attention(predictor),
        "explain": list(explaining(predictor)),
        "max_pictures": service.most_pictures,
        "notes": list(predictor.notes),
        "version": __version__,
    }
