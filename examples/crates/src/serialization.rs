//! serde_json; postcard; ciborium; with serde's derives. indexmap.

use crate::hex;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Ship {
    name: String,
    year: u16,
    masts: Vec<f32>,
    flag: Option<Flag>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Flag {
    Plain,
    Signal { letters: String },
}

pub(crate) fn show() {
    let flag = Flag::Signal { letters: "é".into() };
    let ship = Ship { name: "Fram".into(), year: 1892, masts: vec![27.5, 40.0], flag: Some(flag) };
    let json = serde_json::to_string(&ship).expect("a ship is JSON");
    println!("serde_json {json}");
    println!("serde_json.back {}", serde_json::from_str::<Ship>(&json).is_ok_and(|back| back == ship));
    let wrong = serde_json::from_str::<Ship>(r#"{"name": "x", "year": 70000, "masts": [], "flag": "Plain"}"#);
    println!("serde_json.refused {}", wrong.expect_err("no such year"));

    let bytes = postcard::to_allocvec(&ship).expect("a ship fits");
    println!("postcard {}", hex(&bytes));
    println!("postcard.back {}", postcard::from_bytes::<Ship>(&bytes).is_ok_and(|back| back == ship));
    println!("postcard.refused {}", postcard::from_bytes::<Ship>(&bytes[..5]).is_err());

    let mut bytes = Vec::new();
    ciborium::into_writer(&(Flag::Plain, 1.5, "z", vec![-500]), &mut bytes).expect("a vector takes everything");
    println!("ciborium {}", hex(&bytes));
    let back: Result<(Flag, f64, String, Vec<i32>), _> = ciborium::from_reader(&bytes[..]);
    println!("ciborium.back {back:?}");

    let mut order: IndexMap<_, _, std::hash::RandomState> = [("c", 3), ("a", 1), ("b", 2)].into_iter().collect();
    order.insert("a", 10);
    order.shift_remove("c");
    println!("indexmap {order:?}");
}
