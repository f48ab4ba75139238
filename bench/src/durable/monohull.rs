//! Our server, with a workflow for each order.

use super::Order;
use super::client::Style;
use super::engine::{Engine, Place};
use crate::harness::Result;
use crate::ours::image;
use crate::service::put;
use serde_json::json;
use std::fs;
use std::process::Command;

impl Engine {
    /// `monohull serve`, which suspends what waits for so long (`--suspend`).
    pub(crate) fn monohull(suspend: &str, more: &[&str], orders: &[Order]) -> Result<Engine> {
        let place = Place::new("monohull", 1)?;
        let program = std::env::current_exe().map_err(|error| error.to_string())?.with_file_name("monohull");
        let options: Vec<String> = ["--suspend", suspend].iter().chain(more).map(|word| (*word).to_owned()).collect();
        let begin = move |place: &Place| {
            let mut command = Command::new(&program);
            command.arg("serve").arg("--listen").arg(place.address(0).to_string());
            command.arg("--state").arg(place.folder.join("state")).args(&options);
            command.env("RUST_LOG", "error").env_remove("MONOHULL_TOKEN");
            vec![command]
        };
        let engine = Engine::new("Monohull", Style::Monohull, place, Box::new(begin), (0, "/readyz"), 0)?;
        let address = engine.place.address(0);
        let path = image("bench-probe");
        put(address, "/functions/probe", &fs::read(&path).map_err(|error| format!("{path}: {error}"))?)?;
        for order in [Order::new("nothing", 0)].iter().chain(orders) {
            let outputs = if order.what == "nothing" { vec![] } else { vec!["result"] };
            let document = json!({
                "name": order.workflow(),
                "functions": { "probe": { "image": "function:probe" } },
                // One whose process is killed before its first wait is run again.
                "steps": [{
                    "name": "main", "function": "probe", "args": order.arguments(), "retry": { "max_attempts": 5 },
                }],
                "outputs": outputs,
                "limits": { "carriers": 1 },
            });
            put(address, &format!("/workflows/{}", order.workflow()), document.to_string().as_bytes())?;
        }
        Ok(engine)
    }
}
