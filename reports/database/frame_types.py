"""pandas types of the columns of frames; columns of the same name have the same type in every view.

A test compares the table with the types that PostgreSQL reports for every column of every view.
"""

from __future__ import annotations

from opscope.harness.record import measures

TEXT, COUNT, NUMBER, TRUTH, TIME, LIST = "str", "Int64", "float64", "bool", "datetime64[us, UTC]", "object"
OF_TYPE = {str: TEXT, int: COUNT, float: NUMBER, bool: TRUTH}
"""Python type of a field -> pandas type of its column."""

_NAMED = {
    COUNT: """
        acknowledged all_models alone asked attempt attempted attempted_ops attempted_uses bad bad_ops bad_uses both_ops
        both_uses build_failed causes cycles_before cycles_now cycles_of_all_uses dead depth epochs expected_ops
        export_failed failing_ops fixed_ops fixes flaky_ops framework_missing host_ops inputs loop_count
        microbatch model_count models_missing module_ops new_failures new_ops newest news nights_ago not_attempted
        not_run now_bad of_date one_series ops position prepare_failed ran rank right_before right_now right_op
        right_ops right_uses right_uses_before right_uses_now right_whole simulated_cycles_per_input slower_ops stopped
        structural tonight uses whole""",
    NUMBER: """
        all_ms compile_ms compile_ms_before compile_ms_now compile_seconds device_seconds inputs_per_second
        pass_rate pass_rate_before pass_rate_of_uses pcc pcc_before pcc_now pop_seconds push_seconds readiness
        readiness_of_uses seconds share simulated_inputs_per_second simulated_seconds_per_input total_seconds
        z_max""",
    TRUTH: "compiler_changed demo flaky is_expected is_failure jaxlib_changed models_changed timing_only",
    TIME: "date first_seen started",
}
OF_COLUMN = {name: dtype for dtype, names in _NAMED.items() for name in names.split()} | {
    name: OF_TYPE[kind] for name, kind in measures.KINDS.items()
}
"""Column -> its type in every view; columns that are not listed are text."""

OF_VIEW = {
    "dashboard_changes": {"flaky": TEXT, "place": COUNT},
    "dashboard_history": {"flaky": TEXT},
    "dashboard_ops": {"flaky": TEXT},
    "dashboard_programs": {"changed": COUNT, "number": COUNT, "number_before": COUNT},
    "dashboard_two_nights": {"flaky": TEXT, "place": COUNT},
    "ledger": {"is_expected": COUNT},
}
"""View -> the columns whose type differs from that of the same name in other views."""


def type_of(view: str, column: str) -> str:
    """The pandas type of a column of a view."""
    return OF_VIEW.get(view, {}).get(column) or OF_COLUMN.get(column, TEXT)
