//! Short names for long ones: eight letters and three, which nothing else in the directory has.

use alloc::vec::Vec;

/// Bytes of a short name: of its base, and of all of it.
const BASE: usize = 8;
const LEN: usize = 11;
/// Letters of the long name that its short one begins with at least.
const KEPT: usize = 2;

/// A short name in search of one that is free.
pub(crate) struct Short {
    /// The long name, cut to what a short one can hold.
    cut: [u8; LEN],
    /// Letters of the base.
    len: usize,
    /// The long name is no more than this.
    whole: bool,
    sum: u16,
    /// Those in the directory that it may be the same as.
    taken: Vec<[u8; LEN]>,
}

impl Short {
    /// The short name for a long one.
    pub(crate) fn new(name: &str) -> Short {
        let (base, extension) = match name.rfind('.') {
            Some(dot) if dot > 0 => (&name[..dot], &name[dot + 1..]),
            _ => (name, ""),
        };
        let mut cut = [b' '; LEN];
        let (len, base_is_whole) = letters(&mut cut[..BASE], base);
        let (_, extension_is_whole) = letters(&mut cut[BASE..], extension);
        let sum = name.chars().fold(0u16, |sum, c| sum.rotate_right(1).wrapping_add(c as u16));
        Short { cut, len, whole: base_is_whole && extension_is_whole, sum, taken: Vec::new() }
    }

    /// Another entry of the directory has this one.
    pub(crate) fn take(&mut self, short: &[u8]) {
        let kept = self.len.min(KEPT);
        if short[..kept] == self.cut[..kept] && short[BASE..] == self.cut[BASE..] {
            let mut taken = [0; LEN];
            taken.copy_from_slice(short);
            self.taken.push(taken);
        }
    }

    /// One that is free: the name itself, its beginning with a number, or a sum in between.
    pub(crate) fn free(mut self) -> [u8; LEN] {
        self.taken.sort_unstable();
        let is_free = |short: &[u8; LEN]| self.taken.binary_search(short).is_err();
        if self.whole && is_free(&self.cut) {
            return self.cut;
        }
        let numbered = (b'1'..=b'4').map(|number| self.with(self.len.min(6), &[b'~', number]));
        // A directory has fewer entries than there are sums.
        let summed = (0..=u16::MAX).flat_map(|more| (b'1'..=b'9').map(move |number| (more, number)));
        let summed = summed.map(|(more, number)| {
            let digit = |shift: u16| b"0123456789ABCDEF"[usize::from(self.sum.wrapping_add(more) >> shift & 0xf)];
            self.with(self.len.min(KEPT), &[digit(12), digit(8), digit(4), digit(0), b'~', number])
        });
        numbered.chain(summed).find(is_free).unwrap_or(self.cut)
    }

    /// The first letters, and then this.
    fn with(&self, letters: usize, tail: &[u8]) -> [u8; LEN] {
        let mut short = self.cut;
        short[..BASE].fill(b' ');
        short[..letters].copy_from_slice(&self.cut[..letters]);
        short[letters..letters + tail.len()].copy_from_slice(tail);
        short
    }
}

/// Puts a part of a long name into its place in the short one: how many letters it has there, and whether that is all of it.
fn letters(place: &mut [u8], part: &str) -> (usize, bool) {
    let (mut len, mut whole) = (0, true);
    for c in part.chars() {
        let letter = match c {
            ' ' | '.' => None,
            'a'..='z' | 'A'..='Z' | '0'..='9' => Some(c.to_ascii_uppercase() as u8),
            _ if "!#$%&'()-@^_`{}~".contains(c) => Some(c as u8),
            _ => Some(b'_'),
        };
        whole &= letter.is_some_and(|letter| char::from(letter) == c.to_ascii_uppercase());
        let Some(letter) = letter else { continue };
        let Some(byte) = place.get_mut(len) else { return (len, false) };
        *byte = letter;
        len += 1;
    }
    (len, whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(name: &str, taken: &[&[u8; LEN]]) -> [u8; LEN] {
        let mut short = Short::new(name);
        taken.iter().for_each(|taken| short.take(*taken));
        short.free()
    }

    #[test]
    fn a_name_that_fits_is_its_own_short_name() {
        assert_eq!(&short("Foo", &[]), b"FOO        ");
        assert_eq!(&short("Foo.b", &[]), b"FOO     B  ");
        assert_eq!(&short("Foo.baR", &[]), b"FOO     BAR");
    }

    #[test]
    fn others_are_cut_and_numbered() {
        assert_eq!(&short("Foo+1.baR", &[]), b"FOO_1~1 BAR");
        assert_eq!(&short("ver +1.2.text", &[]), b"VER_12~1TEX");
        assert_eq!(&short(".bashrc.swp", &[]), b"BASHRC~1SWP");
        assert_eq!(&short(".foo", &[]), b"FOO~1      ");
        assert_eq!(&short("ä", &[]), b"_~1        ");
        assert_eq!(&short("x.txt", &[b"X       TXT"]), b"X~1     TXT");
        assert_eq!(&short("x.txt", &[b"X       TXT", b"X~1     TXT"]), b"X~2     TXT");
    }

    #[test]
    fn where_many_begin_alike_there_is_a_sum() {
        let mut taken: Vec<[u8; LEN]> = Vec::new();
        for _ in 0..30 {
            let references: Vec<_> = taken.iter().collect();
            let next = short("TextFile.Mine.txt", &references);
            assert!(!taken.contains(&next));
            taken.push(next);
        }
        assert_eq!((&taken[3], &taken[4]), (b"TEXTFI~4TXT", b"TE527D~1TXT"));
        assert_eq!((&taken[12], &taken[13]), (b"TE527D~9TXT", b"TE527E~1TXT"));
    }
}
