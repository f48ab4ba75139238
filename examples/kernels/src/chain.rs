//! A payload that is handed from link to link, each of which proves that it has read every byte.
//!
//! ```text
//! | checksum (u64, little-endian) | hops (u64) | content … |
//! ```
//!
//! The checksum covers the hops and the content, so a link that only forwards bytes cannot get it right.

use core::fmt;

/// Bytes in front of the content.
pub const HEADER: usize = 16;

/// The payload did not arrive as it was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Damaged {
    /// It has no room for a header.
    Short,
    /// Its checksum is another one.
    Checksum {
        /// Hops it claims to have made.
        hops: u64,
    },
}

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damaged::Short => f.write_str("the payload is shorter than its header"),
            Damaged::Checksum { hops } => write!(f, "the payload's checksum is wrong after {hops} hops"),
        }
    }
}

impl core::error::Error for Damaged {}

/// Fills `payload`, which is zero, and makes it ready for its first hop.
pub fn create(payload: &mut [u8]) -> Result<(), Damaged> {
    let content = payload.get_mut(HEADER..).ok_or(Damaged::Short)?;
    // The last few bytes stay zero.
    for (word, index) in content.as_chunks_mut::<8>().0.iter_mut().zip(1u64..) {
        *word = index.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    }
    seal(payload, 0);
    Ok(())
}

/// Verifies the payload; returns the hops it has made.
pub fn verify(payload: &[u8]) -> Result<u64, Damaged> {
    let (checksum, rest) = payload.split_first_chunk::<8>().ok_or(Damaged::Short)?;
    let (hops, content) = rest.split_first_chunk::<8>().ok_or(Damaged::Short)?;
    let hops = u64::from_le_bytes(*hops);
    match checksum_of(hops, content) == u64::from_le_bytes(*checksum) {
        true => Ok(hops),
        false => Err(Damaged::Checksum { hops }),
    }
}

/// One hop: verifies the payload, counts the hop, changes one byte of the content, seals it again.
pub fn forward(payload: &mut [u8]) -> Result<u64, Damaged> {
    let hops = verify(payload)? + 1;
    if let Some(byte) = payload[HEADER..].get_mut(hops as usize) {
        *byte ^= 0xa5;
    }
    seal(payload, hops);
    Ok(hops)
}

fn seal(payload: &mut [u8], hops: u64) {
    let checksum = checksum_of(hops, &payload[HEADER..]);
    payload[..8].copy_from_slice(&checksum.to_le_bytes());
    payload[8..HEADER].copy_from_slice(&hops.to_le_bytes());
}

/// Four pairs of a sum and a sum of sums, as in Fletcher's checksum, over 64-bit words: the compiler makes vector code
/// of it, and it is about as fast as memory is read. How a byte counts depends on where it stands.
fn checksum_of(hops: u64, content: &[u8]) -> u64 {
    let (mut sums, mut sums_of_sums) = ([hops; 4], [0u64; 4]);
    let (blocks, rest) = content.as_chunks::<32>();
    for block in blocks {
        let words = block.as_chunks::<8>().0;
        for lane in 0..4 {
            sums[lane] = sums[lane].wrapping_add(u64::from_le_bytes(words[lane]));
            sums_of_sums[lane] = sums_of_sums[lane].wrapping_add(sums[lane]);
        }
    }
    let tail = rest.iter().fold(content.len() as u64, |sum, &byte| sum.rotate_left(8) ^ u64::from(byte));
    let mix = |sum: u64, part: &u64| (sum ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    sums.iter().chain(&sums_of_sums).fold(tail, mix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn travels_and_is_checked() {
        for size in [HEADER, HEADER + 1, HEADER + 64, 100, 1 << 16] {
            let mut payload = vec![0; size];
            create(&mut payload).unwrap();
            for hop in 1..20 {
                assert_eq!(forward(&mut payload), Ok(hop));
            }
            assert_eq!(verify(&payload), Ok(19));
        }
    }

    #[test]
    fn any_changed_byte_is_noticed() {
        let mut payload = vec![0; 200];
        create(&mut payload).unwrap();
        for at in 0..payload.len() {
            payload[at] ^= 1;
            assert!(verify(&payload).is_err(), "byte {at}");
            payload[at] ^= 1;
        }
        assert_eq!(create(&mut [0; 15]), Err(Damaged::Short));
        assert_eq!(verify(&[0; 15]), Err(Damaged::Short));
    }
}
