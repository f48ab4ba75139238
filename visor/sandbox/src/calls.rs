//! Lists of system calls as tables: each call, with which arguments, and why.

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};
use std::collections::BTreeMap;

/// One test of an argument: its position, how much of it counts, what. Of an `int` the kernel looks at the lower half only, and
/// the upper may be anything.
#[derive(Clone)]
pub struct Argument(pub u8, pub SeccompCmpArgLen, pub SeccompCmpOp, pub u64);

/// The argument is another `int`.
pub const fn is_not(position: u8, value: i32) -> Argument {
    Argument(position, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, value as u32 as u64)
}

/// The argument is this `int`.
pub const fn is(position: u8, value: i32) -> Argument {
    Argument(position, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value as u32 as u64)
}

/// The argument is a greater `int`.
pub const fn above(position: u8, value: i32) -> Argument {
    Argument(position, SeccompCmpArgLen::Dword, SeccompCmpOp::Gt, value as u32 as u64)
}

/// These bits are the ones of `value`.
pub const fn masked(position: u8, bits: i32, value: i32) -> Argument {
    let op = SeccompCmpOp::MaskedEq(bits as u32 as u64);
    Argument(position, SeccompCmpArgLen::Dword, op, value as u32 as u64)
}

/// None of these bits is set.
pub const fn without(position: u8, bits: i32) -> Argument {
    masked(position, bits, 0)
}

/// The argument is a null pointer.
pub const fn null(position: u8) -> Argument {
    Argument(position, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0)
}

/// The argument is this address, or lies behind it.
pub const fn at_least(position: u8, address: u64) -> Argument {
    Argument(position, SeccompCmpArgLen::Qword, SeccompCmpOp::Ge, address)
}

/// The argument lies before this address.
pub const fn below(position: u8, address: u64) -> Argument {
    Argument(position, SeccompCmpArgLen::Qword, SeccompCmpOp::Lt, address)
}

/// With which arguments a call is meant.
pub enum Rules<'r> {
    /// With any.
    Any,
    /// If all of these tests hold.
    If(&'r [Argument]),
    /// If all tests of one of these lists hold.
    Either(&'r [&'r [Argument]]),
    /// If the argument at this position is one of these.
    OneOf(u8, &'r [i32]),
}

impl Rules<'_> {
    /// As `seccompiler` takes them: of several rules one must hold; without rules all arguments are meant.
    fn compile(&self) -> Result<Vec<SeccompRule>, BackendError> {
        match self {
            Rules::Any => Ok(Vec::new()),
            Rules::If(tests) => Ok(vec![rule(tests)?]),
            Rules::Either(lists) => lists.iter().map(|tests| rule(tests)).collect(),
            Rules::OneOf(position, values) => values.iter().map(|value| rule(&[is(*position, *value)])).collect(),
        }
    }
}

/// All of these must hold.
fn rule(tests: &[Argument]) -> Result<SeccompRule, BackendError> {
    let condition = |Argument(position, len, op, value): Argument| SeccompCondition::new(position, len, op, value);
    SeccompRule::new(tests.iter().cloned().map(condition).collect::<Result<_, _>>()?)
}

/// A call, with which arguments, and why.
pub struct Entry<'r>(pub i64, pub Rules<'r>, pub &'static str);

/// A filter that does `listed` for what is in the table, and `otherwise` for everything else. A call that is in the table twice is a
/// mistake of the table's.
pub fn filter<'e>(
    entries: impl IntoIterator<Item = &'e Entry<'e>>,
    otherwise: SeccompAction,
    listed: SeccompAction,
) -> Result<BpfProgram, BackendError> {
    let mut list = BTreeMap::new();
    for Entry(call, rules, why) in entries {
        let twice = list.insert(*call, rules.compile()?);
        assert!(twice.is_none(), "call {call} is in the table twice: {why}");
    }
    SeccompFilter::new(list, otherwise, listed, TargetArch::x86_64).and_then(BpfProgram::try_from)
}
