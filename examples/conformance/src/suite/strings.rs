//! `String`, `str` and `char`: briefly, because they are core's and alloc's own.

use super::check;
use std::borrow::Cow;
use std::ffi::{CStr, CString};
use std::str::FromStr;

pub(super) fn all() {
    slices();
    owned();
    bytes();
    characters();
    c_strings();
}

fn slices() {
    let text = "one, two,,three ";
    check!("split", text.split(',').collect::<Vec<_>>());
    check!("splitn_and_rsplitn", (text.splitn(2, ',').last(), text.rsplitn(2, ',').last()));
    check!("split_inclusive", "a\nb\n".split_inclusive('\n').collect::<Vec<_>>());
    check!("split_terminator", "a;b;".split_terminator(';').collect::<Vec<_>>());
    check!("split_by_set", "a-b_c".split(['-', '_']).collect::<Vec<_>>());
    check!("split_whitespace", " a\u{a0}b\tc  ".split_whitespace().collect::<Vec<_>>());
    check!("split_once", ("k=v=w".split_once('='), "k=v=w".rsplit_once('='), "k".split_once('=')));
    check!("lines", "a\r\nb\n\nc\r".lines().collect::<Vec<_>>());
    check!("find", ("hëllo".find('l'), "hëllo".rfind('l'), "hëllo".find("xx"), "abc".find(char::is_uppercase)));
    check!("matches", "a1b22".match_indices(char::is_numeric).collect::<Vec<_>>());
    check!("replace", ("aXbX".replace('X', "--"), "aXbX".replacen('X', "", 1)));
    check!("trim", (" \u{2003}x ".trim(), "xxaxx".trim_matches('x'), "0012".trim_start_matches('0')));
    check!("strip", ("prefix-x".strip_prefix("prefix-"), "x".strip_suffix("y")));
    check!("case", ("Straße ΑΣ".to_uppercase(), "ΌΔΟΣ İ".to_lowercase(), "Ab".to_ascii_uppercase()));
    check!("get_at_boundary", ("hëllo".get(0..2), "hëllo".get(0..3), "hëllo".is_char_boundary(2)));
    check!("char_indices", "aß→".char_indices().collect::<Vec<_>>());
    check!(
        "escape",
        ("a\n\"é".escape_default().to_string(), "é\t".escape_unicode().to_string(), "é\t".escape_debug().to_string())
    );
    check!("compare", ("a" < "B", "abc".cmp("abd"), "Z".eq_ignore_ascii_case("z")));
    check!(
        "parse",
        (
            "7".parse::<u8>(),
            "x".parse::<char>(),
            "true".parse::<bool>(),
            bool::from_str("yes").map_err(|e| e.to_string())
        )
    );
    check!("repeat_and_concat", ("ab".repeat(3), ["a", "b"].concat(), ["a", "b", "c"].join("/")));
}

fn owned() {
    let mut text = String::with_capacity(8);
    text.push_str("bulk");
    text.push('h');
    text += "ead";
    check!("build", (&text, text.len(), text.capacity() >= 8));
    text.insert(0, '→');
    text.insert_str(3, "[]");
    check!("insert", &text);
    check!("remove", (text.remove(0), text.pop(), &text));
    text.truncate(4);
    text.retain(|c| c != '[');
    check!("truncate_and_retain", &text);
    check!("drain", (text.drain(1..).collect::<String>(), &text));
    let mut text = String::from("0123456789");
    text.replace_range(2..5, "<>");
    check!("replace_range", (text.split_off(6), &text));
    check!("extend", {
        let mut all = String::new();
        all.extend(["a", "b"]);
        all.extend(['c']);
        all
    });
    check!(
        "from_utf8",
        (
            String::from_utf8(vec![0xc3, 0x9f]),
            String::from_utf8(vec![b'a', 0xff]).map_err(|e| (e.to_string(), e.into_bytes()))
        )
    );
    check!(
        "from_utf8_lossy",
        (String::from_utf8_lossy(b"a\xf0\x9f\xffz"), matches!(String::from_utf8_lossy(b"ok"), Cow::Borrowed(_)))
    );
    check!("from_utf16", (String::from_utf16(&[0xd83d, 0xdea2]), String::from_utf16(&[0xd800]).is_err()));
    check!("cow", {
        let mut cow = Cow::Borrowed("a");
        cow.to_mut().push('b');
        cow += "c";
        cow.into_owned()
    });
    check!("collect", (["a", "b"].iter().copied().collect::<String>(), "ba".chars().rev().collect::<Box<str>>()));
    check!(
        "try_reserve",
        (String::new().try_reserve(10), String::new().try_reserve(usize::MAX).map_err(|e| e.to_string()))
    );
}

fn bytes() {
    check!("byte_slices", (b"a b".split(|b| *b == b' ').count(), b"Ab".to_ascii_lowercase(), b" x ".trim_ascii()));
    let lone = "(".as_bytes()[0];
    check!("utf8_error", {
        let error = std::str::from_utf8(&[b'a', b'b', 0xe2, lone]).unwrap_err();
        (error.valid_up_to(), error.error_len(), error.to_string())
    });
    check!("utf8_chunks", b"a\xffb".utf8_chunks().map(|c| (c.valid(), c.invalid().to_vec())).collect::<Vec<_>>());
    check!("escape_ascii", b"\x00a\"\xff".escape_ascii().to_string());
}

fn characters() {
    check!(
        "classes",
        (
            'ß'.is_alphabetic(),
            '٣'.is_numeric(),
            '\u{a0}'.is_whitespace(),
            'Z'.is_ascii_uppercase(),
            '\u{85}'.is_control()
        )
    );
    check!("digits", ('f'.to_digit(16), 'g'.to_digit(16), char::from_digit(35, 36), '9'.is_digit(8)));
    check!(
        "conversions",
        (char::from_u32(0xd800), char::try_from(0x41u32), u8::try_from('é'), u8::try_from('→').is_err(), 'a' as u32)
    );
    check!(
        "case_mapping",
        ('ß'.to_uppercase().to_string(), 'İ'.to_lowercase().count(), 'ǆ'.to_uppercase().to_string())
    );
    check!("encode", ('→'.len_utf8(), '🚢'.len_utf16(), '→'.encode_utf8(&mut [0; 4]).len()));
    check!("ascii_of_std", (std::ascii::escape_default(b'\n').to_string(), 'a'.to_ascii_uppercase()));
}

fn c_strings() {
    let owned = CString::new("hull").unwrap();
    check!("c_string", (owned.as_bytes_with_nul(), owned.to_str(), &owned));
    check!("c_string_with_nul_inside", CString::new("a\0b").map_err(|e| (e.nul_position(), e.to_string())));
    check!("c_str", (CStr::from_bytes_with_nul(b"a\0"), CStr::from_bytes_until_nul(b"ab\0c\0"), c"lit".count_bytes()));
    check!("c_str_error", CStr::from_bytes_with_nul(b"a").map_err(|e| e.to_string()));
}
