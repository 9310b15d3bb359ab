"""A JSON Schema as one line of text, for a reader: `{job_id: integer, state: done|dead, note?: string}`."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Schema = dict[str, Any]


def of(shape: "Schema") -> str:
    """The line. `?` marks a key that may be absent, `[…]` a list, `{*: …}` any keys."""
    if "anyOf" in shape and "properties" not in shape:
        return " | ".join(dict.fromkeys(of(one) for one in shape["anyOf"]))
    if "const" in shape:
        return _constant(shape["const"])
    if "enum" in shape:
        return "|".join(map(str, shape["enum"]))
    kind = shape.get("type")
    if kind == "array":
        return "[]" if shape.get("maxItems") == 0 else f"[{of(shape.get('items', {}))}]"
    if kind == "object":
        return _object(shape)
    return str(kind or "any")


def _constant(value: object) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _object(shape: "Schema") -> str:
    more = shape.get("additionalProperties")
    if isinstance(more, dict):
        return f"{{*: {of(more)}}}"
    needed = shape.get("required", ())
    fields = [
        f"{key}{'' if key in needed else '?'}: {of(one)}" for key, one in shape.get("properties", {}).items()
    ]
    return "{" + ", ".join(fields) + "}"
