//! Slots whose names others know: a step's lists say who may take and fill them.

mod support;

use monohull_visor::report::RunReport;
use serde_json::{Value, json};
use support::letter::{STOLEN, document, nothing, slots};
use support::{run, text};

/// An owner, a thief with these lists, a reader; one after the other.
fn letter(lists: Value) -> RunReport {
    run(&document("attacks", lists))
}

fn lines(report: &RunReport, step: usize, instance: usize) -> Vec<&str> {
    report.steps[step].instances[instance].lines.iter().map(|line| line.text.as_str()).collect()
}

/// Without lists a name is enough.
#[test]
fn without_a_list_a_step_can_take_every_slot_by_name() {
    let report = letter(json!({}));
    assert!(report.error.is_none(), "{:#?}", report.error);
    assert_eq!(lines(&report, 1, 0), STOLEN);
    assert_eq!(text(&report, "answer"), "forged");
    assert!(lines(&report, 2, 0)[0].contains("slot `letter` has been taken already"));
}

#[test]
fn a_list_limits_the_slots_of_a_step() {
    let report = letter(nothing());
    assert!(report.error.is_none(), "{:#?}", report.error);
    let [take, look, fill] = lines(&report, 1, 0)[..] else { panic!("{report:#?}") };
    assert!(
        take.starts_with("take letter: ") && take.contains("slot `letter` is not in the step's list `takes`"),
        "{take}"
    );
    assert!(look.contains("slot `letter` is not in the step's list `takes`"), "{look}");
    assert!(fill.contains("slot `answer` is not in the step's list `fills`"), "{fill}");
    assert_eq!(lines(&report, 2, 0), ["read dear reader", "take letter: done", "fill answer: done"]);
    assert_eq!(text(&report, "answer"), "genuine");
}

/// A list that names the slots is no hindrance, nor is one that names how they begin.
#[test]
fn what_is_listed_is_allowed() {
    let report = letter(json!({ "takes": ["let*"], "fills": ["*"] }));
    assert_eq!(lines(&report, 1, 0)[..2], ["got dear reader", "take letter: done"]);
    assert_eq!(text(&report, "answer"), "forged");
}

#[test]
fn instances_are_kept_to_their_own_parts() {
    let list = json!(["part.{index}"]);
    let step = json!([
        { "name": "parts", "function": "attacks", "instances": 2, "args": { "role": "parts" }, "takes": list, "fills": list }
    ]);
    let report = run(&slots("attacks", step, json!([])));
    assert!(report.error.is_none(), "{:#?}", report.error);
    for own in 0..2 {
        let [first, second, third] = lines(&report, 0, own)[..] else { panic!("{report:#?}") };
        assert_eq!((first, third), (&*format!("fill {own}: done"), "take own: done"));
        let other = 1 - own;
        assert!(second.contains(&format!("slot `part.{other}` is not in the step's list `fills`")), "{second}");
    }
}
