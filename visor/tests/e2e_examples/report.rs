//! A function with published crates in it: serde and serde_json, unmodified.

use crate::harness::Workflow;
use serde_json::{Value, json};

#[test]
fn json_in_and_out() {
    let output = Workflow::shipped("json-report").run(None, "report").output();
    let report: Value = serde_json::from_slice(&output).expect("the report is JSON");
    assert_eq!(
        report,
        json!({
            "title": "two customers",
            "orders": 2,
            "total": 18.5,
            "by_customer": { "Ada": 15.0, "Grace": 3.5 },
            "most_wanted": "tea",
        })
    );
}

#[test]
fn an_argument_of_the_wrong_type_is_named() {
    let mut workflow = Workflow::shipped("json-report");
    workflow.set("report", "/args/orders", "none");
    let ran = workflow.run(None, "report");
    assert!(ran.failure().contains("orders"), "{}", ran.failure());
}
