//! Feeds arbitrary files to the checker, with everything explained: it may refuse, but not panic, hang or eat memory,
//! and explaining must not change what it finds, nor the fast verdict.
#![no_main]

use libfuzzer_sys::fuzz_target;
use monohull_checker::{Rules, check_by, refusal};

fuzz_target!(|file: &[u8]| {
    let plain = check_by(Rules::IMAGE, file);
    let explained = check_by(Rules { explain: true, own_gates: true, ..Rules::IMAGE }, file);
    assert_eq!(refusal(file).as_ref().map(Option::as_ref), plain.as_ref().map(|report| report.refusal()));
    match (plain, explained) {
        (Ok(plain), Ok(explained)) => {
            let gates = explained.own_gates;
            let total = |report: &monohull_checker::Report| report.counts.iter().map(|count| count.count).sum::<u64>();
            assert_eq!(total(&plain), total(&explained) + gates);
            assert!(explained.findings.iter().all(|finding| finding.context.is_some()));
        }
        (plain, explained) => assert_eq!(plain.err(), explained.err()),
    }
});
