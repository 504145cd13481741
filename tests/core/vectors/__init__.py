"""What Go and Kubernetes make of chosen inputs, written by generate.go."""

import json
from pathlib import Path
from typing import TypedDict, TypeVar, cast


class ActionVector(TypedDict, total=False):
    Method: str
    Target: str
    Error: str
    URI: str
    Verb: str
    Path: str
    Group: str
    Version: str
    Namespace: str
    Resource: str
    Name: str
    Subresource: str
    IsResource: bool
    LongRunning: bool
    Unparsed: bool
    Fields: list[list[str]]
    Labels: list[list[str]]


class SelectorVector(TypedDict):
    Text: str
    Parses: bool
    Requirements: list[list[str]] | None


class KeyVector(TypedDict):
    Key: str
    Fault: str


class QuoteVector(TypedDict):
    Bytes: str
    Quoted: str


class NegotiationVector(TypedDict):
    Agent: str
    Query: str
    Accept: str
    MediaType: str
    Pretty: bool


Row = TypeVar("Row", ActionVector, SelectorVector, KeyVector, QuoteVector, NegotiationVector)


def load(name: str, row_type: type[Row]) -> list[Row]:
    """Return the rows of one file; the type is what the generator promises."""
    rows = json.loads(Path(__file__).with_name(f"{name}.json").read_text(encoding="utf-8"))
    return cast("list[Row]", rows)  # the generator's own types, checked by the tests that use them
