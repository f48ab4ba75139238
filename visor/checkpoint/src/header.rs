//! The first bytes of a checkpoint.
//!
//! ```text
//!    0   8   magic                         40   8   number of the key that sealed it, or zero
//!    8   2   format                        48  16   zero
//!   10   2   bytes of the header: 128      64  32   digest: SHA-256 of bytes 0 to 40 and of the table of sections
//!   12   4   number of sections            96  32   seal: HMAC-SHA-256 of the same bytes, or zero
//!   16   8   bytes of the file
//!   24   8   offset of the stored pages
//!   32   8   bytes of the stored pages
//! ```
//!
//! The table of sections follows; it has the hash of each section, and a section has the hash of each stored page. So digest
//! and seal cover every byte of the file although they are made from very few, and the number of the key is the only
//! thing that they do not cover.

use crate::error::{Error, Part};
use crate::hash::Hash;
use crate::key::{Key, KeyId};
use crate::section::part;
use sha2::{Digest, Sha256};

/// Bytes of the header.
pub(crate) const HEADER: usize = 128;
/// The first bytes of every checkpoint. A transfer as text, or one that clears the highest bit, damages them.
pub(crate) const MAGIC: [u8; 8] = *b"\x89MHULL\r\n";
/// The format that this program writes, and the newest that it reads.
pub(crate) const FORMAT: u16 = 1;
/// The most sections of a file.
pub(crate) const SECTIONS_MAX: u32 = 256;
/// What digest and seal cover of the header.
const COVERED: usize = 40;
/// What sealing writes: the number of the key, and all behind it.
pub(crate) const SEALED_FROM: usize = COVERED;

/// A header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) format: u16,
    pub(crate) length: u16,
    pub(crate) sections: u32,
    pub(crate) file_bytes: u64,
    pub(crate) pages_offset: u64,
    pub(crate) pages_bytes: u64,
    pub(crate) key: KeyId,
    pub(crate) reserved: [u8; 16],
    pub(crate) digest: Hash,
    pub(crate) seal: [u8; 32],
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&self.format.to_le_bytes());
        bytes[10..12].copy_from_slice(&self.length.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.sections.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.file_bytes.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.pages_offset.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.pages_bytes.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.key.0);
        bytes[48..64].copy_from_slice(&self.reserved);
        bytes[64..96].copy_from_slice(&self.digest.0);
        bytes[96..128].copy_from_slice(&self.seal);
        bytes
    }

    /// Reads the beginning of a file of `there` bytes.
    pub(crate) fn decode(bytes: &[u8], there: u64) -> Result<Header, Error> {
        if !MAGIC.starts_with(&bytes[..bytes.len().min(MAGIC.len())]) {
            return Err(Error::Foreign);
        }
        let short = Error::Truncated { part: Part::Header, needed: HEADER as u64, there };
        if bytes.len() < 10 {
            return Err(short);
        }
        let format = u16::from_le_bytes(part(bytes, 8));
        if format > FORMAT {
            return Err(Error::NewerFormat { found: format, known: FORMAT });
        }
        if bytes.len() < HEADER {
            return Err(short);
        }
        let header = Header {
            format,
            length: u16::from_le_bytes(part(bytes, 10)),
            sections: u32::from_le_bytes(part(bytes, 12)),
            file_bytes: u64::from_le_bytes(part(bytes, 16)),
            pages_offset: u64::from_le_bytes(part(bytes, 24)),
            pages_bytes: u64::from_le_bytes(part(bytes, 32)),
            key: KeyId(part(bytes, 40)),
            reserved: part(bytes, 48),
            digest: Hash(part(bytes, 64)),
            seal: part(bytes, 96),
        };
        if header.format == 0 || header.length as usize != HEADER || header.sections > SECTIONS_MAX {
            return Err(Error::Damaged { part: Part::Header, at: 0..HEADER as u64 });
        }
        Ok(header)
    }

    /// What the digest must be with this table.
    pub(crate) fn digest_with(&self, table: &[u8]) -> Hash {
        Hash(Sha256::new().chain_update(&self.encode()[..COVERED]).chain_update(table).finalize().into())
    }

    /// The bytes from [`SEALED_FROM`] on, sealed by this key.
    pub(crate) fn sealed(mut self, table: &[u8], key: &Key) -> [u8; HEADER - SEALED_FROM] {
        self.key = key.id();
        self.seal = key.seal(&[&self.encode()[..COVERED], table]);
        part(&self.encode(), SEALED_FROM)
    }

    /// Whether this key has sealed it.
    pub(crate) fn check_seal(&self, table: &[u8], key: &Key) -> Result<(), Error> {
        if !self.is_sealed() {
            return Err(Error::NotSealed);
        }
        if self.key != key.id() {
            return Err(Error::OtherKey { found: self.key, ours: key.id() });
        }
        match key.has_sealed(&[&self.encode()[..COVERED], table], &self.seal) {
            true => Ok(()),
            false => Err(Error::Edited(self.key)),
        }
    }

    /// Whether some key claims to have sealed it.
    pub(crate) fn is_sealed(&self) -> bool {
        self.key != KeyId::NONE || self.seal != [0; 32]
    }
}
