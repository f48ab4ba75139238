//! The kernel's signal frame as registers: components that are not listed are as at the start, those that are not known are named,
//! and what a stranger gives as registers is compared with what any interrupted thread can have.

use monohull_trampoline::system::interrupted::{
    CONTEXT_REGISTERS, EXTENDED, GENERAL, NoRegisters, UnknownRegisters, XsaveLayout,
};
use monohull_trampoline::system::{Registers, VectorState};

/// As Intel's processors have it.
const LAYOUT: XsaveLayout = XsaveLayout { avx: 576, masks: 1088, zmm_upper: 1152, zmm_more: 1664 };
const FRAME: usize = 2696;
const MAGIC: u32 = 0x4650_5853;
const IP: u64 = 0x1000;
const X87: u64 = 1;
const SSE: u64 = 2;
const AVX: u64 = 4;
const AVX512: u64 = 0xe0;
const PKRU: u64 = 1 << 9;
const MPX: u64 = 0b11 << 3;

/// A frame in which each byte is another, with these components.
fn frame(components: u64) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..FRAME).map(|at| (at * 7 + 3) as u8).collect();
    frame[24..28].copy_from_slice(&0x1fa0_u32.to_le_bytes());
    frame[464..468].copy_from_slice(&MAGIC.to_le_bytes());
    frame[512..520].copy_from_slice(&components.to_le_bytes());
    frame[520..528].fill(0);
    frame
}

fn context() -> [u64; CONTEXT_REGISTERS] {
    let mut context = std::array::from_fn(|at| at as u64 * 0x1001);
    context[17] = u64::MAX;
    context
}

fn of(frame: &[u8]) -> Result<Registers, UnknownRegisters> {
    Registers::of_signal(&context(), IP, frame, &LAYOUT)
}

/// Vector register `n` in what `extended` gives.
fn vector(extended: &[u8; EXTENDED], n: usize) -> &[u8] {
    &extended[512 + 64 * n..][..64]
}

#[test]
fn every_component_goes_to_its_place() {
    let frame = frame(X87 | SSE | AVX | AVX512 | PKRU | MPX);
    let registers = of(&frame).expect("all are known");
    assert_eq!((registers.ip(), registers.sp(), registers.bp()), (IP, 15 * 0x1001, 10 * 0x1001));
    assert_eq!(registers.flags(), 0xcd5 | 2 | 1 << 18 | 1 << 21, "no trap, no privilege, no nested task");
    assert_eq!(registers.general()[..9], [7, 6, 5, 4, 3, 2, 1, 0, 8].map(|at| at * 0x1001));
    assert_eq!(registers.general()[9..], [9, 10, 11, 12, 14, 13].map(|at| at * 0x1001));
    let extended = registers.extended();
    assert_eq!(extended[..24], frame[..24]);
    assert_eq!(extended[24..32], [0xa0, 0x1f, 0, 0, 0, 0, 0, 0]);
    assert_eq!(extended[32..416], frame[32..416]);
    assert!(extended[416..512].iter().all(|byte| *byte == 0));
    for n in 0..16 {
        let expected =
            [&frame[160 + 16 * n..][..16], &frame[576 + 16 * n..][..16], &frame[1152 + 32 * n..][..32]].concat();
        assert_eq!(vector(&extended, n), expected, "{n}");
        assert_eq!(vector(&extended, 16 + n), &frame[1664 + 64 * n..][..64], "{n}");
    }
    assert_eq!(extended[EXTENDED - 64..], frame[1088..1152]);
}

#[test]
fn what_is_not_listed_is_as_at_the_start() {
    let extended = of(&frame(PKRU)).expect("it is known").extended();
    assert_eq!(extended[..2], 0x037f_u16.to_le_bytes());
    assert_eq!(extended[24..28], 0x1fa0_u32.to_le_bytes(), "MXCSR is always there");
    assert!(extended[2..24].iter().chain(&extended[28..]).all(|byte| *byte == 0));
    let extended = of(&frame(AVX)).expect("it is known").extended();
    assert!(vector(&extended, 3)[..16].iter().all(|byte| *byte == 0));
    assert!(vector(&extended, 3)[16..32].iter().any(|byte| *byte != 0));
}

#[test]
fn components_that_cannot_be_put_back_are_refused() {
    for unknown in [1 << 8, 1 << 17, 1 << 18, 1 << 19, 1 << 62] {
        assert_eq!(of(&frame(X87 | unknown)), Err(UnknownRegisters(unknown)));
    }
    let mut packed = frame(AVX);
    packed[527] = 0x80;
    assert!(of(&packed).is_err());
    for short in [0, 511, 600, 2687] {
        assert!(of(&frame(X87 | SSE | AVX | AVX512)[..short]).is_err(), "{short}");
    }
}

/// Without XSAVE there is what FXSAVE writes.
#[test]
fn a_frame_without_more_has_both_that_are_always_there() {
    let mut frame = frame(0);
    frame[464..468].fill(0);
    let extended = of(&frame[..512]).expect("they are known").extended();
    assert_eq!(extended[..24], frame[..24]);
    assert_eq!(vector(&extended, 15)[..16], frame[400..416]);
    assert!(vector(&extended, 15)[16..].iter().all(|byte| *byte == 0));
}

#[test]
fn parts_are_registers_again_if_they_can_be() {
    let registers = of(&frame(X87 | SSE | AVX | AVX512)).expect("all are known");
    let (words, general, extended) =
        ((registers.ip(), registers.sp(), registers.flags()), *registers.general(), registers.extended());
    let again = |extended: &[u8], vectors| Registers::of_parts(words, &general, extended, vectors);
    assert_eq!(again(&extended, VectorState::Avx512), Ok(registers.clone()));
    // Another processor has fewer.
    assert_eq!(again(&extended, VectorState::Avx), Err(NoRegisters));
    assert_eq!(again(&extended, VectorState::Sse), Err(NoRegisters));
    let narrow = of(&frame(X87 | SSE)).expect("both are known").extended();
    assert!(again(&narrow, VectorState::Sse).is_ok());
    assert_eq!(again(&extended[1..], VectorState::Avx512), Err(NoRegisters));
    for (at, bit) in [(26, 1), (28, 1), (31, 0x80), (160, 1), (416, 1), (511, 1)] {
        let mut edited = extended;
        edited[at] ^= bit;
        assert_eq!(again(&edited, VectorState::Avx512), Err(NoRegisters), "{at}");
    }
    let (ip, sp, flags) = words;
    for flags in [flags | 1 << 8, flags | 1 << 9, flags | 3 << 12, flags | 1 << 14, flags | 1 << 17, flags & !2, 0] {
        let parts = Registers::of_parts((ip, sp, flags), &[0; GENERAL], &extended, VectorState::Avx512);
        assert_eq!(parts, Err(NoRegisters), "{flags:#x}");
    }
}
