//! What a finding looks like among its neighbours: is it an instruction of the program, or do other instructions
//! just happen to hold its bytes?
//!
//! The answer never changes the verdict, because user code can jump to any byte. It helps the reader to decide what to do. It is as
//! certain as the place where decoding began:
//!
//! ```text
//!   from the symbol's start     push rbp │ mov rbp, rsp │ add eax, 0xef010f │        certain, unless the function
//!                               └────────────────────────────^ finding               holds data
//!   from 64 places before it    ──┐ ─┐ ┐                                             decoding soon falls into step;
//!                                 └──┴─┴──▶ most agree on one instruction            the report has the number that agree
//! ```

use crate::instruction::is_prefix;
pub use crate::kind::Class;
use iced_x86::{Decoder, DecoderOptions, Formatter, Instruction, IntelFormatter};
use serde::Serialize;
use std::collections::VecDeque;

/// How far from its start a symbol is decoded; further in, nearby starting points are asked.
const LONGEST: usize = 64 << 10;
/// Starting points that are tried where no symbol helps, and the distance of the nearest one.
const STARTS: usize = 64;
const NEAREST: usize = 32;
/// Instructions shown before and behind the one a finding lies in.
const BEFORE: usize = 3;
const BEHIND: usize = 2;

/// What the class rests on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// Decoding from the start of the symbol it lies in.
    Symbol,
    /// Decoding from starting points before it.
    Starts {
        /// How many of them agree with the class.
        agree: u32,
        /// How many led to it at all.
        of: u32,
    },
}

/// One decoded instruction.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Decoded {
    /// Where it begins, relative to the load base.
    pub address: u64,
    /// Its bytes.
    #[serde(serialize_with = "hex")]
    pub bytes: Vec<u8>,
    /// The instruction in Intel's notation.
    pub text: String,
    /// Whether the finding begins in it.
    pub here: bool,
}

/// A finding among its neighbours.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Context {
    /// What it is.
    pub class: Class,
    /// How that is known.
    pub evidence: Evidence,
    /// The instruction at the finding's first byte; nothing if the decoder does not know it.
    pub when_jumped_to: Option<String>,
    /// The instructions around it; none if the class is unclear.
    pub neighbourhood: Vec<Decoded>,
}

/// Executable memory, with what decoding needs to know of it.
pub(crate) struct Code<'a> {
    pub(crate) memory: &'a [u8],
    /// Address of the first byte.
    pub(crate) address: u64,
}

impl Code<'_> {
    /// Judges the finding that begins at index `at`; `symbol` is the index at which its symbol begins.
    pub(crate) fn context(&self, at: usize, symbol: Option<usize>) -> Context {
        let symbol = symbol.filter(|&start| start <= at && at - start <= LONGEST);
        let (from, evidence) = match symbol.filter(|&start| self.covering(start, at).is_some()) {
            Some(start) => (Some(start), Evidence::Symbol),
            None => self.vote(at),
        };
        let path = from.and_then(|from| self.covering(from, at)).unwrap_or_default();
        let class = path.back().map_or(Class::Unclear, |last| self.class(last, at));
        let when_jumped_to = self.decode(at).map(|instruction| text(&instruction));
        Context { class, evidence, when_jumped_to, neighbourhood: self.neighbourhood(path, at) }
    }

    /// The last few instructions on the way from `from`, up to the one that holds `at`.
    fn covering(&self, from: usize, at: usize) -> Option<VecDeque<Instruction>> {
        let mut decoder = self.decoder(from);
        let mut path = VecDeque::with_capacity(BEFORE + 2);
        while decoder.can_decode() {
            let instruction = decoder.decode();
            if instruction.is_invalid() {
                return None;
            }
            path.push_back(instruction);
            if path.len() > BEFORE + 1 {
                path.pop_front();
            }
            if from + decoder.position() > at {
                return Some(path);
            }
        }
        None
    }

    /// A starting point from which most others' instruction is reached, if three quarters agree.
    fn vote(&self, at: usize) -> (Option<usize>, Evidence) {
        let nearest = at.saturating_sub(NEAREST);
        // The instruction that each way ends in, by its index.
        let ends: Vec<(usize, u64)> = (nearest.saturating_sub(STARTS - 1)..=nearest)
            .filter_map(|start| Some((start, self.covering(start, at)?.back()?.ip())))
            .collect();
        let agree = |end: u64| ends.iter().filter(|(_, other)| *other == end).count();
        let best = ends.iter().max_by_key(|(_, end)| agree(*end));
        let votes = best.map_or(0, |(_, end)| agree(*end));
        let evidence = Evidence::Starts { agree: votes as u32, of: ends.len() as u32 };
        (best.filter(|_| votes * 4 >= ends.len() * 3).map(|(start, _)| *start), evidence)
    }

    /// The finding is the instruction itself if only prefixes stand before it.
    fn class(&self, instruction: &Instruction, at: usize) -> Class {
        let start = (instruction.ip() - self.address) as usize;
        if self.memory[start..at].iter().all(|&byte| is_prefix(byte)) { Class::Instruction } else { Class::Accident }
    }

    fn neighbourhood(&self, path: VecDeque<Instruction>, at: usize) -> Vec<Decoded> {
        let Some(last) = path.back() else { return Vec::new() };
        let behind = (last.next_ip() - self.address) as usize;
        let mut decoder = self.decoder(behind);
        let further: Vec<Instruction> =
            decoder.iter().take(BEHIND).take_while(|instruction| !instruction.is_invalid()).collect();
        let at = self.address + at as u64;
        path.iter()
            .chain(&further)
            .map(|instruction| {
                let start = (instruction.ip() - self.address) as usize;
                Decoded {
                    address: instruction.ip(),
                    bytes: self.memory[start..start + instruction.len()].to_vec(),
                    text: text(instruction),
                    here: (instruction.ip()..instruction.next_ip()).contains(&at),
                }
            })
            .collect()
    }

    fn decode(&self, at: usize) -> Option<Instruction> {
        Some(self.decoder(at).decode()).filter(|instruction| !instruction.is_invalid())
    }

    fn decoder(&self, from: usize) -> Decoder<'_> {
        Decoder::with_ip(64, &self.memory[from..], self.address + from as u64, DecoderOptions::NONE)
    }
}

/// Bytes in a report: two digits each, with spaces between.
pub(crate) fn hex<S: serde::Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    serializer.serialize_str(&digits.join(" "))
}

fn text(instruction: &Instruction) -> String {
    let mut formatter = IntelFormatter::new();
    let options = formatter.options_mut();
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_branch_leading_zeros(false);
    options.set_show_branch_size(false);
    options.set_space_after_operand_separator(true);
    let mut text = String::new();
    formatter.format(instruction, &mut text);
    text
}
