//! Objects that Wasmtime's compiler has made ahead of time, from the texts beside them.

use monohull_checker::context::Evidence;
use monohull_checker::{Class, Form, Kind, Report, Rules, check_by};

fn judge(object: &[u8]) -> Report {
    check_by(Rules { explain: true, ..Rules::IMAGE }, object).expect("it can be judged")
}

#[test]
fn ordinary_code_may_be_loaded() {
    let report = judge(include_bytes!("compiled/sum.cwasm"));
    assert_eq!((report.form, report.is_refused(), report.scanned_bytes), (Form::Wasm, false, 4096));
    // Its loop, its trampolines and their metadata hold no more than bytes that dispatch and kernel stop.
    assert!(report.findings.iter().all(|finding| finding.kind == Kind::FarTransfer), "{:#?}", report.findings);
}

#[test]
fn a_constant_with_forbidden_bytes_is_found_where_the_compiler_has_put_it() {
    let report = judge(include_bytes!("compiled/constant.cwasm"));
    assert_eq!((report.form, report.is_refused(), report.count(Kind::Wrpkru)), (Form::Wasm, true, 1));
    let finding = report.refusal().expect("it is refused");
    assert_eq!((finding.offset, finding.address), (0x1005, 0x1005));
    assert_eq!(finding.symbol.as_deref(), Some("wasm[0]::function[0] + 0x5"));
    let context = finding.context.as_ref().expect("it is explained");
    assert_eq!((context.class, context.evidence), (Class::Accident, Evidence::Symbol));
    let here = context.neighbourhood.iter().find(|neighbour| neighbour.here).expect("it is among its neighbours");
    assert_eq!(here.text, "mov eax, 0xef010f");
}

/// Cut anywhere, an object is judged as far as it goes or is an error; it is never anything else.
#[test]
fn a_piece_of_an_object_is_never_clean() {
    let whole = include_bytes!("compiled/constant.cwasm");
    let clean = |length: usize| check_by(Rules::IMAGE, &whole[..length]).is_ok_and(|report| !report.is_refused());
    assert_eq!((0..whole.len()).find(|length| clean(*length)), None);
}
