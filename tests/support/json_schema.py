"""As much of JSON Schema as ours uses; whatever else a schema says is an error here."""

import re
from typing import Any

_TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "object": dict,
    "array": list,
    "null": type(None),
}
_SAYS_NOTHING = {"$schema", "$defs", "title", "description", "default"}


class Schema:
    """Tells what is wrong with a document."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root

    def problems(self, value: Any) -> list[str]:
        """Return the path of everything that is wrong, each with the word of the schema."""
        return list(self._problems(self._root, value, ""))

    def _problems(self, schema: dict[str, Any], value: Any, path: str) -> list[str]:
        found: list[str] = []
        for word, said in schema.items():
            if word not in _SAYS_NOTHING:
                found += getattr(self, f"_{word.strip('$')}")(said, value, path, schema)
        return found

    def _ref(self, said: str, value: Any, path: str, _schema: Any) -> list[str]:
        return self._problems(self._root["$defs"][said.removeprefix("#/$defs/")], value, path)

    def _type(self, said: str, value: Any, path: str, _schema: Any) -> list[str]:
        is_boolean = isinstance(value, bool)  # which is an int, too, in Python
        is_right = isinstance(value, _TYPES[said]) and is_boolean == (said == "boolean")
        return [] if is_right else [f"{path}: type"]

    def _properties(self, said: Any, value: Any, path: str, _schema: Any) -> list[str]:
        if not isinstance(value, dict):
            return []
        return [
            problem
            for name, schema in said.items()
            if name in value
            for problem in self._problems(schema, value[name], f"{path}.{name}")
        ]

    def _required(self, said: Any, value: Any, path: str, _schema: Any) -> list[str]:
        return [f"{path}.{name}: required" for name in said if name not in value]

    def _additionalProperties(self, said: Any, value: Any, path: str, schema: Any) -> list[str]:  # noqa: N802
        known = schema.get("properties", {})
        others = [name for name in value if name not in known] if isinstance(value, dict) else []
        if said is False:
            return [f"{path}.{name}: unknown" for name in others]
        return [
            problem
            for name in others
            for problem in self._problems(said, value[name], f"{path}.{name}")
        ]

    def _propertyNames(self, said: Any, value: Any, path: str, _schema: Any) -> list[str]:  # noqa: N802
        return [problem for name in value for problem in self._problems(said, name, path)]

    def _items(self, said: Any, value: Any, path: str, _schema: Any) -> list[str]:
        items = enumerate(value) if isinstance(value, list) else ()
        return [
            problem
            for index, item in items
            for problem in self._problems(said, item, f"{path}.{index}")
        ]

    def _anyOf(self, said: Any, value: Any, path: str, _schema: Any) -> list[str]:  # noqa: N802
        tried = [self._problems(schema, value, path) for schema in said]
        return [] if [] in tried else [f"{path}: anyOf"]

    def _const(self, said: Any, value: Any, path: str, _schema: Any) -> list[str]:
        return [] if value == said else [f"{path}: const"]

    def _enum(self, said: Any, value: Any, path: str, _schema: Any) -> list[str]:
        return [] if value in said else [f"{path}: enum"]

    def _pattern(self, said: Any, value: Any, path: str, _schema: Any) -> list[str]:
        if not isinstance(value, str):
            return []
        return [] if re.search(said, value) else [f"{path}: pattern"]

    def _minLength(self, said: Any, value: Any, path: str, _schema: Any) -> list[str]:  # noqa: N802
        return [] if len(value) >= said else [f"{path}: minLength"]

    def _minimum(self, said: Any, value: Any, path: str, _schema: Any) -> list[str]:
        return [] if not isinstance(value, int | float) or value >= said else [f"{path}: minimum"]

    def _maximum(self, said: Any, value: Any, path: str, _schema: Any) -> list[str]:
        return [] if not isinstance(value, int | float) or value <= said else [f"{path}: maximum"]

    def _exclusiveMinimum(self, said: Any, value: Any, path: str, _schema: Any) -> list[str]:  # noqa: N802
        return [] if not isinstance(value, int | float) or value > said else [f"{path}: minimum"]
