"""The page of constructs: everything the five language specifications ask for, and the test that shows it.

The specifications are named by their numbers, oldest first: 000 and 003 are the classic dialect, 001, 002 and 004 the
canonical one. tests/test_constructs.py fails when a row names a test that is not there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from docs._markdown import code, page, table

STORIES = "tests/unit/engine/test_classic_stories.py"
SEED = "tests/seeds/test_seed_{}.py"
APPENDIX = "tests/acceptance/test_seed_000_appendix.py"
LISTENERS = "tests/acceptance/modes/test_approvals.py"
ANSWER = f"{LISTENERS}::test_an_answer_is_taken_once_by_a_run_that_everything_died_under"


class Construct(NamedTuple):
    """What a specification asks for, where, and the test that shows it."""

    seed: str
    section: str
    what: str
    test: str


def _rows(seed: str, rows: dict[tuple[str, str], str]) -> list[Construct]:
    return [Construct(seed, section, what, test) for (section, what), test in rows.items()]


def _seed(seed: str, rows: dict[tuple[str, str], str]) -> list[Construct]:
    return [Construct(seed, section, what, f"{SEED.format(seed)}::{test}") for (section, what), test in rows.items()]


def _stories(seed: str, rows: dict[tuple[str, str], str]) -> list[Construct]:
    return [Construct(seed, section, what, f"{STORIES}::test_{test}") for (section, what), test in rows.items()]


CONSTRUCTS: tuple[Construct, ...] = (
    *_seed(
        "000",
        {
            ("2.1", "version and kind"): "TestSection2Document::test_2_1_only_version_two",
            ("2.2", "top-level keys"): "TestSection2Document::test_2_2_all_top_level_keys",
            ("2.3", "names in templates"): "TestSection2Document::test_2_3_what_templates_can_read",
            ("4", "keys of a step"): "TestSection4Step::test_4_every_key_of_a_step",
            ("4.2", "tool kinds"): "TestSection4Step::test_4_2_supported_kinds",
            ("5", "workbook"): "TestSection5Workbook::test_5_a_named_task_with_args_of_its_own",
            ("7.1", "knobs of retry"): "TestSection7Retry::test_7_1_all_keys_on_error",
            ("9.1", "next as a name"): "TestSection9Next::test_9_1_a_name",
            ("9.1", "next as a list of steps"): "TestSection9Next::test_9_1_a_list_of_steps_is_a_fork",
            ("9.1", "next with args"): "TestSection9Next::test_9_1_with_args",
            ("9.2", "no conditions in next"): "TestSection9Next::test_9_2_conditions_inside_next_are_refused",
        },
    ),
    *_stories(
        "000",
        {
            ("3.4", "order of evaluation"): "a_step_binds_calls_extracts_decides_and_stores_in_this_order",
            ("6", "loop modes, loop_index"): (
                "a_loop_is_over_before_variables_and_branches_see_the_results_of_all_items"
            ),
            ("7.2", "stop_when"): "stop_when_repeats_an_ok_call_and_keeps_its_last_outcome",
            ("7.3", "retry_when and its names"): "retry_when_sees_status_code_error_attempt_and_data",
            ("8.2", "the first true branch wins"): (
                "the_first_branch_that_matches_wins_and_the_others_are_not_looked_at"
            ),
            ("8.2", "next is the fallback"): (
                "next_is_the_fallback_where_no_branch_matches_or_the_one_that_does_leads_nowhere"
            ),
            ("8.3", "event, response, this"): ("a_failed_call_is_seen_by_branches_that_look_at_it_and_never_by_next"),
            ("10.1", "a sink with a condition"): "a_sink_whose_condition_is_false_is_skipped_and_that_is_told",
            ("10.1", "sink of a workbook task"): ("a_sink_of_a_workbook_task_follows_each_call_and_leaves_its_result"),
        },
    ),
    *_rows(
        "000",
        {
            ("3.2", "workload merged with the payload"): (
                f"{APPENDIX}::test_a_card_is_made_and_every_phase_is_in_the_log"
            ),
            ("10", "sink with table and args, values bound"): (
                f"{APPENDIX}::test_a_card_is_made_and_every_phase_is_in_the_log"
            ),
            ("11", "vars stored and read"): (
                "tests/conformance/test_transient.py::test_postgres_lists_the_last_value_of_each_variable"
            ),
            ("12", "event types and envelope"): f"{APPENDIX}::test_a_card_is_made_and_every_phase_is_in_the_log",
            ("A", "the complete playbook"): f"{APPENDIX}::test_a_card_is_made_and_every_phase_is_in_the_log",
        },
    ),
    *_stories(
        "003",
        {
            ("1.1", "case_mode: exclusive"): "the_first_branch_that_matches_wins_and_the_others_are_not_looked_at",
            ("1.1", "case_mode: inclusive"): (
                "inclusive_runs_the_chains_of_all_branches_that_match_one_after_the_other"
            ),
            ("1.2", "eval_mode: on_entry"): ("branches_are_looked_at_after_the_call_then_on_exit_and_else_comes_last"),
            ("1.2", "eval_mode: on_event"): "a_listener_takes_the_message_it_waits_for",
            ("1.2", "timers"): "a_listener_hears_its_timer",
            ("1.3", "branch_order, priority"): "branch_order_by_priority_then_source",
            ("2.2", "next_policy: end_step"): "end_step_suppresses_the_branches_behind_it",
            ("2.2", "next_policy: break_chain"): ("break_chain_stops_its_own_chain_and_routes_when_all_have_run"),
            ("2.2", "next_policy: defer"): "defer_goes_on_behind_next",
            ("2.3", "winner rule, priority of next"): (
                "the_highest_priority_wins_then_the_next_that_was_reached_first"
            ),
            ("2.4", "policy of one next"): "a_next_may_have_its_own_policy",
            ("2.4", "several targets"): "several_targets_each_get_a_token_with_args_of_their_own",
            ("2.4", "delayed next"): "a_delayed_next_arrives_later",
            ("2.4", "computed target"): "a_computed_target_is_looked_up_when_it_is_known",
            ("3.1", "chains of named tasks"): "a_step_binds_calls_extracts_decides_and_stores_in_this_order",
            ("4.1", "retry.scope: tool, step; inheritance"): (
                "retries_of_the_call_win_over_those_of_its_chain_and_those_over_the_steps"
            ),
            ("4.1", "retry.scope: chain"): "a_chain_is_retried_as_a_whole",
            ("4.1", "backoff, max_delay, jitter"): "backoff_grows_by_its_type_up_to_a_limit",
            ("4.3", "poll"): "a_poll_repeats_a_call_until_its_result_is_ready",
            ("4.3", "poll: max_attempts, deadline"): ("a_poll_is_given_up_after_so_many_calls_or_so_much_time"),
            ("4.4", "action ids"): "ids_nest_and_each_call_has_an_action_of_its_own_that_its_retries_share",
            ("5", "envelope, nesting of ids"): (
                "ids_nest_and_each_call_has_an_action_of_its_own_that_its_retries_share"
            ),
            ("7", "timeout of a step"): "a_step_out_of_time_and_a_failed_item_are_taken_up_by_a_branch",
            ("7", "on_error: ignore, retry"): "on_error_ignores_or_retries",
        },
    ),
    *_rows(
        "003",
        {
            ("1.2", "listeners outlive every process"): ANSWER,
            ("7", "loop: batch_size, on_error"): f"{SEED.format('003')}::TestSection7CompleteStep",
            ("9", "migration"): (
                "tests/property/test_migrate_behaves.py::test_what_a_playbook_becomes_behaves_as_it_did"
            ),
        },
    ),
    *_seed(
        "001",
        {
            ("1", "document"): "TestSection1Document",
            ("2", "the net"): "TestSection2Net",
            ("3", "scopes"): "TestSection3Scopes",
            ("4", "step and admission"): "TestSection4Step",
            ("5", "pipeline and outcomes"): "TestSection5Pipeline",
            ("6", "rules and directives"): "TestSection6FlowControl",
            ("7", "loop"): "TestSection7Loop",
            ("8", "routing"): "TestSection8Routing",
            ("10", "storing results"): "TestSection10Sink",
            ("11, 13", "paging"): "TestSection11And13Pagination",
            ("12", "what is gone"): "TestSection12Deprecations",
        },
    ),
    *_seed(
        "002",
        {
            ("2", "document model"): "TestSection2DocumentModel",
            ("3", "namespaces"): "TestSection3Namespaces",
            ("4", "execution"): "TestSection4Execution",
            ("6", "task policy"): "TestSection6TaskPolicy",
            ("7", "loops"): "TestSection7Loops",
            ("8", "routing"): "TestSection8Routing",
            ("9", "references"): "TestSection9References",
            ("12", "quantum"): "TestSection12Quantum",
            ("13", "validation"): "TestSection13Validation",
            ("A", "grammar"): "TestAppendixAGrammar",
        },
    ),
    *_seed(
        "004",
        {
            ("1", "rules of the dialect"): "TestSection1CanonicalRules",
            ("2", "root"): "TestSection2RootStructure",
            ("3", "normalisation"): "TestSection3Normalization",
            ("4", "layering of spec"): "TestSection4SpecLayering",
            ("5", "execution"): "TestSection5Execution",
            ("6", "directives"): "TestSection6Directives",
            ("7", "scopes"): "TestSection7Scopes",
            ("8", "loop"): "TestSection8Loop",
            ("9", "paging"): "TestSection9Pagination",
            ("10", "results"): "TestSection10Results",
            ("12", "validator"): "TestSection12Validator",
            ("13", "acceptance tests"): "TestSection13AcceptanceTests",
        },
    ),
)

INTRO = """The language was specified in five documents, numbered by age. This page lists what they ask for and the test
that shows it. 000 and 003 describe the [classic dialect](../explanation/classic-steps.md), construct by construct here;
001, 002 and 004 the canonical one, section by section: each class of tests goes through its section rule by rule."""


def pages() -> Iterator[tuple[str, str]]:
    yield "constructs.md", page("Constructs of the specifications", INTRO, *_tables())


def _tables() -> Iterator[str]:
    for seed in sorted({one.seed for one in CONSTRUCTS}):
        yield f"## Specification {seed}"
        rows = [(one.section, one.what, code(one.test)) for one in CONSTRUCTS if one.seed == seed]
        yield table(["Section", "Construct", "Test"], sorted(rows, key=lambda row: _order(row[0])))


def _order(section: str) -> tuple[int, str]:
    number = section.partition(".")[0].partition(",")[0]
    return (int(number), section) if number.isdigit() else (99, section)
