"""The shape of the capabilities, strict down to each flag of each verb. The names are exact (SPEC 3)."""

from ..contract import shapes as s

_NUMBER = s.nullable(s.NUM)
_DEFAULT = s.any_of(s.STR, s.NUM, s.BOOL, s.arr(s.STR), {"type": "null"})
_VERDICT = s.obj(code=s.STR, exit_code=s.ID)
_VERDICTS = s.table(s.nullable(_VERDICT))
_WORDS = s.arr(s.STR)
_TEXTS = s.table(s.STR)

_VALUE = {
    "type": s.STR,
    "minimum": _NUMBER,
    "maximum": _NUMBER,
    "unbounded": s.BOOL,
    "choices": s.nullable(_WORDS),
    "grammar_": s.STR,
    "exclusive_minimum_": s.BOOL,
    "bounds_": s.enum("length"),
    "parts_": s.table(s.arr(s.COUNT)),
    "unit_": s.STR,
    "accepts_none_": s.BOOL,
}
_ITEM = {
    "name": s.STR,
    "description": s.STR,
    **_VALUE,
    "required": s.BOOL,
    "default": _DEFAULT,
    "repeatable": s.BOOL,
    "aliases": _WORDS,
    "value_required": s.BOOL,
    "malformed_expectations": _VERDICTS,
}
_FLAG = s.obj(**_ITEM, flag=s.STR, config_key_=s.STR)
_ARG = s.obj(**_ITEM, flag={"type": "null"}, nargs=s.enum("1", "+", "*", "?", "remainder"))

_HINTS = s.obj(
    categories=s.arr(s.enum("valid", "unknown", "boundary", "malformed", "missing", "excluded")),
    timeout_seconds=s.ID,
    json_failure_verdict=s.STR,
    bounded_by=s.arr(s.obj(when=s.nullable(s.STR), add_one_of=s.arr(_WORDS))),
)
_VERB = s.obj(
    summary=s.STR,
    description=s.STR,
    args=s.arr(_ARG),
    positionals=s.arr(_ARG),
    flags=s.arr(_FLAG),
    mutually_exclusive=s.arr(_WORDS),
    needs=s.table(_WORDS),
    one_of=_WORDS,
    only_with_key=_WORDS,
    output_modes=_WORDS,
    output_schema={"type": "object"},
    data_schema=s.STR,
    meta_schema={"type": "object"},
    schema_ref=s.STR,
    json=s.obj(flag=s.STR, mode=s.STR, schema_ref=s.STR),
    text=s.obj(mode=s.STR, contract=s.BOOL),
    exit_codes=s.arr(s.COUNT),
    errors=_WORDS,
    warnings=_WORDS,
    mutates=s.BOOL,
    destructive=s.BOOL,
    idempotent=s.BOOL,
    stdin=s.nullable(s.STR),
    examples=s.arr(_WORDS),
    probe_hints=_HINTS,
    safety_=s.STR,
    confirmation_=_WORDS,
    input_line_=s.obj(text=s.STR, json=s.table(s.obj(json_types=_WORDS, **_VALUE))),
    interrupts_process_=s.BOOL,
    frames_=s.obj(selector=s.STR, schema_refs=_TEXTS, data_schemas=_TEXTS),
    raw_=s.obj(selector=s.STR, only_with=s.table(_WORDS), content=s.STR),
)
_CODE = s.obj(
    appears_in=s.arr(s.enum("errors", "warnings", "data.skipped")),
    summary=s.STR,
    exit_code_=s.ID,
    retryable=s.BOOL,
    example_=s.STR,
    situation_=s.nullable(s.STR),
    verbs=_WORDS,
)
_LIMIT = s.obj(
    type=s.STR,
    minimum=_NUMBER,
    maximum=_NUMBER,
    unbounded=s.BOOL,
    unit=s.nullable(s.STR),
    summary=s.STR,
    charset_=s.STR,
    exclusive_minimum_=s.BOOL,
)
_VARIABLE = s.obj(
    description=s.STR,
    type=s.STR,
    required=s.BOOL,
    default=_DEFAULT,
    minimum=_NUMBER,
    maximum=_NUMBER,
    unbounded=s.BOOL,
    grammar_=s.STR,
    shadowed_by=s.nullable(s.STR),
    consumed_by=_WORDS,
    malformed_expectations=_VERDICTS,
    accepted_malformed_by_=_WORDS,
)
_KEY = s.obj(name=s.STR, default=_DEFAULT, json_types=_WORDS, **_VALUE)
_SCHEDULING = s.obj(
    duration_grammar=s.STR,
    at_timestamp=s.STR,
    finite_numeric_inputs=_WORDS,
    priority=s.obj(default=s.INT, min=s.INT, max=s.INT, ordering=s.STR),
    queue=s.obj(default=s.STR, grammar=s.STR, single_lane_worker=s.STR),
    slots=s.obj(
        scope=s.STR, opt_in=s.STR, fleet_global=s.BOOL, default_ceiling=s.nullable(s.ID), claimed_false=s.STR
    ),
    scheduled=s.obj(predicate=s.STR, includes=_WORDS, counts_included_in=s.STR),
    drain=s.obj(scope=s.STR, holds_for=_WORDS, skips=s.STR),
)
_BUDGET = s.obj(default=s.COUNT, meaning=s.STR, zero=s.STR, one=s.STR)
_TREE = s.obj(
    members=_WORDS, ended_by=_WORDS, signals=s.STR, grace=s.obj(flag=s.STR, default=s.NUM, unit=s.STR),
    end_of_command=s.STR, keep_children=s.STR, stuck=s.STR,
)  # fmt: skip
_RECOVERY = s.obj(
    proof_of_death=s.STR, unknown=s.STR, noticed_within_seconds=s.NUM, who=s.STR, order=s.STR,
    never_twice=s.STR, at_least_once=s.STR, heartbeat_seconds=s.NUM, late_results=s.STR, requests=s.STR,
    output=s.STR, lock_patience_seconds=s.NUM,
)  # fmt: skip
_EXECUTION = s.obj(
    cwd=s.obj(flag=s.STR, default=s.STR, resolution=s.STR, runtime_failure=s.STR),
    env_overrides=s.obj(
        flag=s.STR, repeatable=s.BOOL, grammar=s.STR, semantics=s.STR, values_stored_plaintext=s.BOOL,
        values_in_add_or_list=s.BOOL, values_in_show=s.BOOL,
    ),
    retry_model=s.obj(
        attempts=s.STR, job_owned_failures=s.STR, worker_crashes=s.STR, max_retries=_BUDGET,
        max_crashes=_BUDGET, backoff=s.STR, wait_drain=s.STR,
    ),
    tree=_TREE,
    recovery=_RECOVERY,
)  # fmt: skip
_MODE = s.obj(
    selector=s.STR, failure_stdout=s.STR, failure_stderr=s.STR, traceback_allowed=s.BOOL, implemented_=s.BOOL
)

SHAPES = {
    "tool_name": s.STR,
    "tool_version": s.STR,
    "contract_version": s.STR,
    "contract_policy": s.STR,
    "features": _WORDS,
    "output_modes": _WORDS,
    "schemas_uri": s.STR,
    "robot_docs_uri": s.STR,
    "global_flags": s.obj(flags=s.arr(_FLAG), answers=_TEXTS, db_scope=s.STR),
    "exit_codes": s.table(s.obj(meaning=s.STR, retryable=s.nullable(s.BOOL), note_=s.STR)),
    "error_codes": _WORDS,
    "job_states": _WORDS,
    "job_transitions": s.table(_WORDS),
    "attempt_states": _WORDS,
    "events": _WORDS,
    "failure_reasons": _WORDS,
    "code_registry": s.table(_CODE),
    "limits": s.table(_LIMIT),
    "env": _TEXTS,
    "env_vars": s.table(_VARIABLE),
    "config": s.obj(
        supported=s.BOOL,
        path=s.STR,
        format=s.STR,
        schema_version=s.ID,
        precedence=_WORDS,
        keys=s.arr(_KEY),
    ),
    "probe_vocabularies": s.table(
        s.obj(valid=s.nullable(s.STR), invalid=_WORDS, out_of_range_low_=s.STR, out_of_range_high_=s.STR)
    ),
    "scheduling": _SCHEDULING,
    "execution": _EXECUTION,
    "parsing": s.obj(
        order_of_refusal=_WORDS,
        flags=s.STR,
        values=s.STR,
        negative_numbers=s.STR,
        double_dash=s.STR,
        ids=s.STR,
        one_or_many=s.STR,
        suggestions=s.STR,
        several=s.STR,
        data_hash=s.STR,
    ),
    "totality": s.obj(envelope=_MODE, frames=_MODE, raw=_MODE, text=_MODE),
    "verbs": s.table(_VERB),
}
