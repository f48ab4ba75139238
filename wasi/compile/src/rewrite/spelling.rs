//! Which constants are forbidden instructions, or parts of them, where they stand in code.

use std::ops::RangeInclusive;

/// Any byte at all.
const ANY: RangeInclusive<u8> = 0x00..=0xff;
const ESCAPE: RangeInclusive<u8> = 0x0f..=0x0f;
const REX2: RangeInclusive<u8> = 0xd5..=0xd5;
/// What follows REX2 in the spelling without an escape.
const PAYLOAD: RangeInclusive<u8> = 0x80..=0xff;
const GROUP_7: RangeInclusive<u8> = 0x01..=0x01;
const GROUP_15: RangeInclusive<u8> = 0xae..=0xae;
const WRPKRU: RangeInclusive<u8> = 0xef..=0xef;

/// What the checker refuses, and a few harmless neighbours: WRPKRU; XRSTOR, WRFSBASE and WRGSBASE, whatever their operands.
const SEQUENCES: [&[RangeInclusive<u8>]; 4] = [
    &[ESCAPE, GROUP_7, WRPKRU],
    &[ESCAPE, GROUP_15, ANY],
    &[REX2, PAYLOAD, GROUP_7, WRPKRU],
    &[REX2, PAYLOAD, GROUP_15, ANY],
];
/// Bytes that a constant has in an instruction or beside the code, if the others are those of its sign.
const LENGTHS: [usize; 4] = [1, 4, 8, 16];

/// Whether a constant of these bytes, in one of the lengths that instructions have for it, holds one of the sequences, ends in the beginning of
/// one, or begins with the end of one.
pub(super) fn spells(constant: &[u8]) -> bool {
    let lengths = LENGTHS.into_iter().filter(|&length| {
        constant.split_at_checked(length).is_some_and(|(_, sign)| sign.iter().all(|byte| matches!(byte, 0 | 0xff)))
    });
    lengths.into_iter().any(|length| SEQUENCES.iter().any(|sequence| touches(&constant[..length], sequence)))
}

/// Whether the sequence begins or ends in these bytes, wherever the rest of it is.
fn touches(bytes: &[u8], sequence: &[RangeInclusive<u8>]) -> bool {
    // Where the sequence begins, counted from its length before the bytes.
    (1..bytes.len() + sequence.len()).any(|start| {
        let (before, within) = (sequence.len().saturating_sub(start), start.saturating_sub(sequence.len()));
        let (sequence, is_begun) = (&sequence[before..], before > 0);
        let is_cut = sequence.len() > bytes.len() - within;
        let mut pairs = bytes[within..].iter().zip(sequence);
        // Of what lies around it on both sides, and of bytes that may be anything, nothing can be told.
        let tells = sequence.iter().take(bytes.len() - within).any(|range| range.start() == range.end());
        !(is_begun && is_cut) && tells && pairs.all(|(byte, range)| range.contains(byte))
    })
}

#[cfg(test)]
mod tests {
    use super::spells;

    #[test]
    fn whole_sequences_and_their_parts_at_the_edges_are_found() {
        for constant in [0x00ef_010f_u32, 0xef01_0f00, 0x0028_ae0f, 0xae0f_0000, 0xef01_80d5, 0x12ae_c0d5] {
            assert!(spells(&constant.to_le_bytes()), "{constant:#x}");
        }
        // Parts: the rest would be in the bytes before or behind.
        for constant in [0x0f00_0000_u32, 0x010f_0000, 0xae0f_0000, 0xd500_0000, 0x80d5_0000, 0x0f, 0xef, 0xef01, 0xae]
        {
            assert!(spells(&constant.to_le_bytes()), "{constant:#x}");
        }
        for constant in [0_u32, 1, 2, 16, 0x0f00, 0x010f, 0xae00, 0xffff_ffff, 0x8000_0000, 0x1234_5678, 0x05_0f] {
            assert!(!spells(&constant.to_le_bytes()), "{constant:#x}");
        }
    }

    #[test]
    fn each_length_that_instructions_have_is_looked_at() {
        // Eight bytes, of which an instruction has four: they end in the beginning of a sequence.
        assert!(spells(&0x0f12_3456_u64.to_le_bytes()));
        assert!(spells(&0xffff_ffff_8f12_340f_u64.to_le_bytes()[..1]));
        assert!(!spells(&0x1_0f12_3456_u64.to_le_bytes()));
        assert!(spells(&(u128::from(0x00ef_010f_u32) << 100 >> 4).to_le_bytes()));
    }
}
