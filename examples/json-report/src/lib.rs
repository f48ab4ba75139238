//! Sums up orders: JSON in through the step's arguments, JSON out through the slot `report`. serde and serde_json are
//! the published crates, unmodified.
#![no_std]
#![deny(unsafe_code)]

use monohull_std::collections::BTreeMap;
use monohull_std::prelude::*;
use monohull_std::slot::{SlotError, SlotString};
use serde::{Deserialize, Serialize};

/// One order, as the workflow file has it.
#[derive(Deserialize)]
struct Order {
    customer: String,
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    name: String,
    price: f64,
    #[serde(default = "one")]
    count: u32,
}

fn one() -> u32 {
    1
}

#[derive(Serialize)]
struct Report {
    title: String,
    orders: usize,
    total: f64,
    by_customer: BTreeMap<String, f64>,
    most_wanted: Option<String>,
}

fn report(title: String, orders: &[Order]) -> Report {
    let mut by_customer = BTreeMap::new();
    let mut wanted = BTreeMap::new();
    for order in orders {
        let sum: f64 = order.items.iter().map(|item| item.price * f64::from(item.count)).sum();
        *by_customer.entry(order.customer.clone()).or_insert(0.0) += sum;
        for item in &order.items {
            *wanted.entry(item.name.as_str()).or_insert(0) += item.count;
        }
    }
    Report {
        title,
        orders: orders.len(),
        total: by_customer.values().sum(),
        by_customer,
        most_wanted: wanted.into_iter().max_by_key(|(_, count)| *count).map(|(name, _)| name.to_owned()),
    }
}

#[monohull::main]
fn main(orders: Vec<Order>, title: Option<String>) -> Result<(), SlotError> {
    let title = title.unwrap_or_else(|| String::from("orders"));
    let text = serde_json::to_string_pretty(&report(title, &orders)).expect("a report has only text keys");
    println!("{} orders", orders.len());
    SlotString::with_slot("report").push_str(&text);
    Ok(())
}
