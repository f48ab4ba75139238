//! What trusted code leaves behind in registers.

use crate::harness::attack;

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn nothing_is_left_in_registers() {
    attack("leftovers", "registers", "").fails("error", &["nothing was left"]);
    attack("leftovers", "registers", "").apart().fails("error", &["nothing was left"]);
}
