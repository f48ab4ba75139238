//! What comes with a program: a custom section of its module, which ends up as memory that the program can read.
//!
//! An interpreter's program is its attachment: one module, and as many functions as there are texts.

/// The section's name.
const NAME: &[u8] = b"monohull.attachment";
/// Magic number and version.
const HEADER: usize = 8;
/// The kind of a custom section.
const CUSTOM: u8 = 0;

/// The contents of the first section of that name.
pub(crate) fn of_module(module: &[u8]) -> Option<&[u8]> {
    let mut rest = module.get(HEADER..)?;
    while let Some((kind, after)) = rest.split_first() {
        let (section, next) = sized(after)?;
        if *kind == CUSTOM
            && let Some((NAME, contents)) = sized(section)
        {
            return Some(contents);
        }
        rest = next;
    }
    None
}

/// Splits behind as many bytes as a number in LEB128, which comes first, says.
fn sized(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut size = 0_u64;
    for (index, byte) in bytes.iter().enumerate().take(5) {
        size |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return bytes[index + 1..].split_at_checked(usize::try_from(size).ok()?);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &[u8] = b"\0asm\x01\0\0\0";

    #[test]
    fn the_section_is_found_among_others() {
        let module = [START, b"\x00\x05\x04name", b"\x01\x01\x00", b"\x00\x97\x00\x13", NAME, b"abc"].concat();
        assert_eq!(of_module(&module), Some(&b"abc"[..]));
        for end in START.len()..module.len() {
            assert_eq!(of_module(&module[..end]), None, "{end}");
        }
        assert_eq!(of_module(&[START, b"\x00\xff\xff\xff\xff\xff"].concat()), None);
    }
}
