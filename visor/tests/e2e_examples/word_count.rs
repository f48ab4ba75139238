//! Word count against `tr | sort | uniq -c`.

use crate::harness::{Random, Workflow, shell};

/// What the machine's own tools count, in the order of our ranking.
fn expected(text: &[u8]) -> Vec<u8> {
    let counted = shell("tr -s '[:space:]' '\\n' | sed '/^$/d' | sort | uniq -c", text);
    let mut words: Vec<(u64, &[u8])> = counted
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| {
            let line = line.trim_ascii_start();
            let space = line.iter().position(|&byte| byte == b' ').expect("uniq -c writes a count and a space");
            (str::from_utf8(&line[..space]).unwrap().parse().unwrap(), &line[space + 1..])
        })
        .collect();
    words.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    words.into_iter().flat_map(|(count, word)| [count.to_string().as_bytes(), b" ", word, b"\n"].concat()).collect()
}

/// Counts with `maps` mappers and `reduces` reducers.
fn counted(text: &[u8], maps: u32, reduces: u32) -> Vec<u8> {
    let mut workflow = Workflow::shipped("word-count");
    workflow.set("split", "/args/parts", maps).set("map", "/instances", maps);
    workflow.set("map", "/args/shards", reduces).set("reduce", "/instances", reduces);
    workflow.run(Some(("text", text)), "counts").output()
}

#[track_caller]
fn agrees(text: &[u8]) {
    let expected = expected(text);
    for (maps, reduces) in [(1, 1), (2, 3), (7, 2)] {
        let counted = counted(text, maps, reduces);
        let (ours, theirs) = (String::from_utf8_lossy(&counted), String::from_utf8_lossy(&expected));
        assert!(
            counted == expected,
            "{maps} mappers, {reduces} reducers\nours:\n{ours:.2000}\ntheirs:\n{theirs:.2000}"
        );
    }
}

#[test]
fn as_shipped() {
    let text = b"the quick brown fox jumps over the lazy dog\n";
    let output = Workflow::shipped("word-count").run(Some(("text", text.as_slice())), "counts").output();
    assert_eq!(output, expected(text));
}

#[test]
fn no_text() {
    agrees(b"");
}

#[test]
fn white_space_only() {
    agrees(b" \n\t\x0b\x0c\r \n\n");
}

#[test]
fn one_word_without_newline() {
    agrees(b"word");
}

#[test]
fn one_line() {
    agrees(b"to be or not to be\n");
}

#[test]
fn one_very_long_word() {
    agrees(&[b'x'; 100_000]);
}

#[test]
fn zero_bytes_are_letters() {
    agrees(b"a\0b a\0b \0 a b\0\n\0");
}

#[test]
fn invalid_utf_8() {
    agrees(b"\xff\xfe caf\xc3 \xc3\xa9t\xc3\xa9 caf\xc3\n\x80 \xff\xfe");
}

#[test]
fn more_instances_than_words() {
    assert_eq!(counted(b"b a b", 24, 9), b"2 b\n1 a\n");
}

#[test]
fn random_bytes() {
    let mut random = Random::new(1);
    let text: Vec<u8> = (0..200_000).map(|_| random.next() as u8).collect();
    agrees(&text);
}

#[test]
fn random_words() {
    let mut random = Random::new(2);
    let mut text = Vec::new();
    while text.len() < 2_000_000 {
        // Short words often, long ones seldom; borders of all kinds.
        let most = 1 + random.below(8);
        let len = 1 + random.below(most);
        text.extend((0..len).map(|_| b'a' + random.below(6) as u8));
        text.extend_from_slice([&b" "[..], b"\n", b"\r\n", b"\t ", b"\x0b"][random.below(5) as usize]);
    }
    agrees(&text);
}
