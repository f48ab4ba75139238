//! Files: encrypted a part at a time, so that none is in memory as a whole.
//!
//! ```text
//!   magic  prefix (16, random)   │ part 0 (64 KiB) tag │ part 1 tag │ … │ the last part (as long as it is) tag │
//!          nonce of part n = prefix, n, and a bit that says whether it is the last
//! ```
//!
//! Parts of another file have another prefix, and those of this file another number, so none takes the place of one. The last part is bound to
//! the place of the file, whose name may be known only when all of it was written. A file that ends before it has no last part.

use crate::cipher::{Error, NONCE, Place, TAG, open_part, seal_part};
use chacha20poly1305::XChaCha20Poly1305;
use std::io::{self, Read, Write};

/// What an encrypted file begins with; the number is the format's.
const MAGIC: &[u8; 8] = b"mh-aead1";
/// Bytes of the random part of nonces.
const PREFIX: usize = 16;
/// Bytes of a part, but for the last one.
const PART: usize = 64 << 10;
/// In the number of the last part.
const LAST: u64 = 1 << 63;

/// Whether a file begins as an encrypted one.
pub fn is_encrypted(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Writes an encrypted file.
pub struct Encrypting<W> {
    to: W,
    cipher: XChaCha20Poly1305,
    prefix: [u8; PREFIX],
    number: u64,
    part: Vec<u8>,
}

fn nonce(prefix: &[u8; PREFIX], number: u64) -> [u8; NONCE] {
    let mut nonce = [0; NONCE];
    nonce[..PREFIX].copy_from_slice(prefix);
    nonce[PREFIX..].copy_from_slice(&number.to_le_bytes());
    nonce
}

impl<W: Write> Encrypting<W> {
    pub(crate) fn new(cipher: XChaCha20Poly1305, mut to: W) -> io::Result<Encrypting<W>> {
        let mut prefix = [0; PREFIX];
        getrandom::fill(&mut prefix)?;
        to.write_all(MAGIC)?;
        to.write_all(&prefix)?;
        Ok(Encrypting { to, cipher, prefix, number: 0, part: Vec::with_capacity(PART + TAG) })
    }

    fn put(&mut self, number: u64, about: &[u8]) -> io::Result<()> {
        let tag = seal_part(&self.cipher, &nonce(&self.prefix, number), about, &mut self.part);
        self.part.extend_from_slice(&tag);
        self.to.write_all(&self.part)?;
        self.part.clear();
        Ok(())
    }

    /// Writes the last part. The file can be decrypted in this place.
    pub fn finish(mut self, place: Place<'_>) -> io::Result<W> {
        self.put(self.number | LAST, &place.bytes())?;
        self.to.flush()?;
        Ok(self.to)
    }
}

impl<W: Write> Write for Encrypting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The last part is never empty unless the file is.
        if self.part.len() == PART && !bytes.is_empty() {
            self.put(self.number, &[])?;
            self.number += 1;
        }
        let taken = bytes.len().min(PART - self.part.len());
        self.part.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    /// What is not a whole part is written at the end.
    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl<W> std::fmt::Debug for Encrypting<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encrypting").field("parts", &self.number).finish_non_exhaustive()
    }
}

/// As many bytes as there are, up to those of a part and its tag.
fn next(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut part = Vec::with_capacity(PART + TAG);
    from.take((PART + TAG) as u64).read_to_end(&mut part)?;
    Ok(part)
}

pub(crate) fn decrypt(
    cipher: &XChaCha20Poly1305,
    place: Place<'_>,
    from: &mut impl Read,
    to: &mut impl Write,
) -> Result<(), Error> {
    let mut head = Vec::new();
    from.by_ref().take((MAGIC.len() + PREFIX) as u64).read_to_end(&mut head)?;
    let prefix = head.strip_prefix(MAGIC).ok_or(Error::NotEncrypted)?;
    let prefix: &[u8; PREFIX] = prefix.try_into().map_err(|_| Error::Changed)?;
    let (mut number, mut part) = (0, next(from)?);
    loop {
        let after = next(from)?;
        let is_last = after.is_empty();
        let length = part.len().checked_sub(TAG).ok_or(Error::Changed)?;
        let (plain, tag) = part.split_at_mut(length);
        let tag: &[u8; TAG] = (&*tag).try_into().map_err(|_| Error::Changed)?;
        let about = if is_last { place.bytes() } else { Vec::new() };
        let this = if is_last { number | LAST } else { number };
        open_part(cipher, &nonce(prefix, this), &about, plain, tag)?;
        to.write_all(plain)?;
        if is_last {
            return Ok(());
        }
        (number, part) = (number + 1, after);
    }
}
