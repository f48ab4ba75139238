//! Both families of gates are made by the assembler whatever the processor: every stub lies where its address is
//! computed, and holds its own carrier's and key's constants.

use monohull_abi::layout::{CARRIER_MAX, CarrierLine, FRAMES_BASE, INFO_BASE, KEY_COUNT, PAGE};
use monohull_trampoline::system::{
    FIRST_FUNCTION_KEY, INFO_KEY, Variant, context_address, context_of, entry_stub, exit_gate, gates_own_wrpkru,
    user_pkru,
};

use std::collections::BTreeSet;

/// `xor ecx, ecx; mov rsp, [r11]; mov rax, [r11 + 8]; mov [r11], rcx; mov [r11 + 8], rcx`
const EMPTIES_THE_FRAME: [u8; 16] =
    [0x31, 0xc9, 0x49, 0x8b, 0x23, 0x49, 0x8b, 0x43, 0x08, 0x49, 0x89, 0x0b, 0x49, 0x89, 0x4b, 0x08];
const WRPKRU: [u8; 3] = [0x0f, 0x01, 0xef];

/// The first bytes of a stub.
fn code(address: u64) -> &'static [u8] {
    // SAFETY: addresses of stubs point into this program's code; 96 bytes from there are still in its gates.
    unsafe { std::slice::from_raw_parts(address as *const u8, 96) }
}

fn holds(code: &[u8], part: &[u8]) -> bool {
    code.windows(part.len()).any(|window| window == part)
}

#[test]
fn an_exit_gate_knows_its_carrier_alone() {
    for variant in [Variant::Plain, Variant::Keys] {
        for carrier in 0..CARRIER_MAX {
            let gate = code(exit_gate(variant, carrier));
            assert!(holds(gate, &context_address(carrier).to_le_bytes()), "{variant:?} {carrier}");
            assert_eq!(holds(gate, &WRPKRU), variant == Variant::Keys);
        }
    }
}

#[test]
fn an_entry_stub_checks_its_key_against_an_immediate() {
    for carrier in 0..CARRIER_MAX {
        for key in FIRST_FUNCTION_KEY..KEY_COUNT as u32 {
            let stub = code(entry_stub(Variant::Keys, carrier, key));
            let rights = user_pkru(key).to_le_bytes();
            let wrpkru = stub.windows(3).position(|window| window == WRPKRU).expect("it sets its key's rights");
            // `cmp eax, imm` follows at once, in the short form if the assembler could.
            let compared = match stub[wrpkru + 3..] {
                [0x3d, a, b, c, d, ..] => i32::from_le_bytes([a, b, c, d]),
                [0x83, 0xf8, a, ..] => i32::from(a as i8),
                _ => panic!("no comparison after WRPKRU: {stub:02x?}"),
            };
            assert_eq!(compared.to_le_bytes(), rights);
            let frame = FRAMES_BASE + (carrier as u64 * KEY_COUNT as u64 + u64::from(key)) * PAGE;
            assert!(holds(stub, &frame.to_le_bytes()), "carrier {carrier}, key {key}");
            // Whatever was in rcx, the frame is empty afterwards.
            assert!(holds(stub, &EMPTIES_THE_FRAME), "carrier {carrier}, key {key}");
            // Another carrier that jumps here is identified by its gs.
            let line = INFO_BASE + (carrier * size_of::<CarrierLine>()) as u64;
            assert!(holds(stub, &line.to_le_bytes()), "carrier {carrier}, key {key}");
        }
    }
    assert!(!holds(&code(entry_stub(Variant::Plain, 0, 0))[..16], &WRPKRU));
}

#[test]
fn the_gates_own_wrpkru_are_where_they_are_said_to_be() {
    let all: BTreeSet<u64> = gates_own_wrpkru().collect();
    assert_eq!(all.len(), CARRIER_MAX * (KEY_COUNT - FIRST_FUNCTION_KEY as usize) + CARRIER_MAX + 1);
    for address in all {
        assert_eq!(code(address)[..3], WRPKRU, "{address:#x}");
    }
}

#[test]
fn rights_of_user_code() {
    for key in FIRST_FUNCTION_KEY..KEY_COUNT as u32 {
        let pkru = user_pkru(key);
        for other in 0..KEY_COUNT as u32 {
            let rights = pkru >> (2 * other) & 0b11;
            // 0b11: neither read nor write; 0b10: read only.
            let expected = if other == key {
                0b00
            } else if other == INFO_KEY {
                0b10
            } else {
                0b11
            };
            assert_eq!(rights, expected, "key {other} for code of key {key}");
        }
    }
}

#[test]
fn a_handler_finds_its_carrier_by_its_stack() {
    for carrier in 0..CARRIER_MAX {
        let context = context_address(carrier);
        assert_eq!(context_of(context - 5000).map(|c| c as u64), Some(context));
    }
    assert_eq!(context_of(0x7fff_0000_0000), None);
    assert_eq!(context_of(0x1000), None);
}
