//! Tables of line programs that are written here byte by byte, whole and damaged.

use super::*;
use monohull_wasi_settings::lines::Lines;
use wasm_encoder::{
    CodeSection, CustomSection, Function, FunctionSection, Instruction, Module as Encoded, TypeSection,
};

/// How a file is called in a header: its folder's number, and its name.
type File<'f> = (u8, &'f [u8]);

/// A unit with these folders and files, and these instructions.
fn unit(version: u16, folders: &[&[u8]], files: &[File<'_>], instructions: &[u8]) -> Vec<u8> {
    // One byte an instruction, lines from -5 on in 14 steps, 13 as the first special opcode.
    let mut rest = vec![1, 1, 1, 0xfb, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1];
    if version >= 5 {
        // A path in the header itself.
        rest.extend([1, 1, 0x08, folders.len() as u8]);
        rest.extend(folders.iter().flat_map(|folder| [*folder, b"\0"].concat()));
        // A path in `.debug_line_str`, and the folder's number in one byte.
        rest.extend([2, 1, 0x1f, 2, 0x0b, files.len() as u8]);
        rest.extend(files.iter().flat_map(|(folder, at)| [*at, &[*folder]].concat()));
    } else {
        rest.extend(folders.iter().flat_map(|folder| [*folder, b"\0"].concat()));
        rest.push(0);
        rest.extend(files.iter().flat_map(|(folder, name)| [*name, &[0, *folder, 0, 0]].concat()));
        rest.push(0);
    }
    let mut unit = version.to_le_bytes().to_vec();
    unit.extend(if version >= 5 { &[4, 0][..] } else { &[] });
    unit.extend((rest.len() as u32).to_le_bytes());
    unit.extend(rest);
    unit.extend(instructions);
    [&(unit.len() as u32).to_le_bytes(), &unit[..]].concat()
}

/// A sequence: from each address on a file, a line, a column, up to the last address.
fn sequence(rows: &[(u32, u8, u8, u8)], end: u32) -> Vec<u8> {
    let address = |address: u32| [&[0, 5, 2], &address.to_le_bytes()[..]].concat();
    let mut bytes = Vec::new();
    let mut last = 1;
    for (start, file, line, column) in rows {
        bytes.extend(address(*start));
        bytes.extend([4, *file, 5, *column, 3, line.wrapping_sub(last) & 0x7f, 1]);
        last = *line;
    }
    bytes.extend(address(end));
    bytes.extend([0, 1, 1]);
    bytes
}

/// A module with a function of some instructions, and these custom sections behind it.
fn module(sections: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut types, mut functions, mut code) = (TypeSection::new(), FunctionSection::new(), CodeSection::new());
    types.ty().function([], []);
    functions.function(0);
    let mut body = Function::new([]);
    for _ in 0..100 {
        body.instruction(&Instruction::Nop);
    }
    code.function(body.instruction(&Instruction::End));
    let mut module = Encoded::new();
    module.section(&types).section(&functions).section(&code);
    for (name, data) in sections {
        module.section(&CustomSection { name: (*name).into(), data: (*data).into() });
    }
    module.finish()
}

/// Where the code section's contents begin in a module.
const CODE: usize = 20;

/// What a table says of an offset.
fn at(table: &[u8], offset: usize) -> Option<(String, u32, u16)> {
    let (name, place) = Lines::new(table)?.at(offset)?;
    Some((name.to_owned(), place.line, place.column))
}

fn is(name: &str, line: u32, column: u16) -> Option<(String, u32, u16)> {
    Some((name.to_owned(), line, column))
}

const ROWS: &[(u32, u8, u8, u8)] = &[(3, 1, 12, 5), (7, 2, 30, 0), (7, 2, 31, 9), (20, 1, 13, 1)];

fn fourth() -> Vec<u8> {
    unit(4, &[b"src"], &[(1, b"main.rs"), (0, b"app.c"), (1, b"/std/lib.rs")], &sequence(ROWS, 40))
}

#[test]
fn places_are_found_by_offset() {
    let program = module(&[(".debug_line", &fourth())]);
    assert_eq!(program[CODE..CODE + 3], [1, 102, 0], "one function");
    let table = of_program(&program);
    for (address, expected) in [
        (0, None),
        (2, None),
        (3, is("src/main.rs", 12, 5)),
        (6, is("src/main.rs", 12, 5)),
        (7, is("app.c", 31, 9)),
        (19, is("app.c", 31, 9)),
        (20, is("src/main.rs", 13, 1)),
        (39, is("src/main.rs", 13, 1)),
        (40, None),
        (90, None),
        (usize::MAX - CODE, None),
    ] {
        assert_eq!(at(&table, CODE + address), expected, "{address}");
    }
}

#[test]
fn names_of_the_fifth_version_are_found_in_their_section() {
    let strings = b"main.rs\0app.c\0";
    let files: [File<'_>; 3] = [(0, &[0, 0, 0, 0]), (1, &[0, 0, 0, 0]), (0, &[8, 0, 0, 0])];
    let lines = unit(5, &[b"/home/me", b"src"], &files, &sequence(ROWS, 40));
    let table = of_program(&module(&[(".debug_line_str", strings), (".debug_line", &lines)]));
    assert_eq!(at(&table, CODE + 3), is("src/main.rs", 12, 5));
    assert_eq!(at(&table, CODE + 7), is("app.c", 31, 9));
    // Without that section there are no names, and so no lines.
    assert_eq!(of_program(&module(&[(".debug_line", &lines)])), b"");
}

#[test]
fn modules_of_a_component_have_their_own_lines() {
    let other = unit(4, &[], &[(0, b"b.c")], &sequence(&[(3, 1, 7, 1)], 90));
    let modules = [module(&[(".debug_line", &fourth())]), module(&[]), module(&[(".debug_line", &other)])];
    let mut component = b"\0asm\x0d\0\x01\0".to_vec();
    let mut starts = Vec::new();
    for module in &modules {
        let length = module.len();
        component.extend([1, length as u8 & 0x7f | 0x80, (length >> 7) as u8]);
        starts.push(component.len());
        component.extend(module);
    }
    let table = of_program(&component);
    assert_eq!(at(&table, starts[0] + CODE + 3), is("src/main.rs", 12, 5));
    assert_eq!(at(&table, starts[1] + CODE + 3), None);
    assert_eq!(at(&table, starts[2] + CODE + 3), is("b.c", 7, 1));
}

#[test]
fn functions_that_were_left_out_have_no_lines() {
    let files: [File<'_>; 2] = [(0, b"a.c"), (0, b"b.c")];
    let sequences = [
        sequence(&[(0, 1, 1, 1)], 60),
        sequence(&[(u32::MAX, 1, 2, 1)], u32::MAX),
        // Beyond the code.
        sequence(&[(50, 1, 3, 1)], 5000),
        sequence(&[(3, 2, 4, 1)], 20),
        // Begins where another one ends.
        sequence(&[(20, 2, 5, 1)], 25),
    ];
    let table = of_program(&module(&[(".debug_line", &unit(4, &[], &files, &sequences.concat()))]));
    let lines: Vec<_> = (0..100).map(|address| at(&table, CODE + address)).collect();
    let expected = |address| match address {
        3..20 => is("b.c", 4, 1),
        20..25 => is("b.c", 5, 1),
        _ => None,
    };
    assert_eq!(lines, (0..100).map(expected).collect::<Vec<_>>());
}

#[test]
fn a_unit_that_cannot_be_read_takes_no_other_with_it() {
    let mut unknown = fourth();
    unknown[4] = 77;
    let later = unit(4, &[], &[(0, b"b.c")], &sequence(&[(50, 1, 7, 1)], 60));
    for lines in [[&unknown[..], &later].concat(), [&later[..], &[9; 50]].concat()] {
        assert_eq!(at(&of_program(&module(&[(".debug_line", &lines)])), CODE + 50), is("b.c", 7, 1));
    }
}

#[test]
fn a_program_without_lines_has_no_table() {
    for sections in
        [&[][..], &[(".debug_line", &b""[..])], &[(".debug_line", &[0xff; 300])], &[(".debug_info", &[1; 9])]]
    {
        assert_eq!(of_program(&module(sections)), b"");
    }
    // What is no program is refused elsewhere.
    assert_eq!(of_program(b"\x7fELF"), b"");
}

#[test]
fn names_and_their_number_have_limits() {
    let long = [b'a'; NAME_MAX + 1];
    let bodies = [(&long[..], None), (&long[1..], Some(NAME_MAX)), (b"a\x1b[31m\nb", Some(12))];
    for (name, length) in bodies {
        let lines = unit(4, &[], &[(0, name)], &sequence(&[(3, 1, 1, 1)], 9));
        let found = at(&of_program(&module(&[(".debug_line", &lines)])), CODE + 3);
        assert_eq!(found.as_ref().map(|(name, ..)| name.len()), length);
        assert!(found.is_none_or(|(name, ..)| !name.contains(char::is_control)));
    }
    // One text that all files of many units are called by.
    let text = [b'x'; 100_000];
    let files = [(0, &[0; 4][..]); 200];
    let rows: Vec<_> = (0..200).map(|file| (3, file as u8, 1, 1)).collect();
    let lines = unit(5, &[b"/"], &files, &sequence(&rows, 9)).repeat(500);
    let table = of_program(&module(&[(".debug_line_str", &text), (".debug_line", &lines)]));
    assert_eq!(table, b"", "the text is too long");
    // A header that is too large is not read: neither it nor what it would take.
    let files = vec![(0, &b"f"[..]); HEADER_MAX / 5 + 1];
    let lines = unit(4, &[], &files, &sequence(&[(3, 1, 1, 1)], 9));
    assert_eq!(of_program(&module(&[(".debug_line", &lines)])), b"");
}

/// Units whose files all have names of the largest length, which lie over each other.
#[test]
fn names_are_read_up_to_a_limit() {
    // A name begins at each of the first thousand bytes, and all end at the same place.
    let mut text = vec![b'x'; NAME_MAX];
    text.push(0);
    let starts: Vec<[u8; 4]> = (0..90_u32).map(u32::to_le_bytes).collect();
    let files: Vec<File<'_>> = starts.iter().map(|start| (0, &start[..])).collect();
    let rows: Vec<_> = (0..90_u32).map(|file| (3 + file, file as u8, 1, 1)).collect();
    let hostile = unit(5, &[b"/"], &files, &sequence(&rows, 95));
    let units = |count: usize, last: &[u8]| {
        module(&[(".debug_line_str", &text), (".debug_line", &[&hostile.repeat(count), last].concat())])
    };
    // Each file of a unit is asked for once: its name is looked for, and made.
    let one = read(&units(1, &[])).work;
    let names: usize = (0..90).map(|start| LOOKUP + 2 * (NAME_MAX - start)).sum();
    assert_eq!(one, names);
    assert_eq!(read(&units(1, &unit(5, &[b"/"], &files, &sequence(&rows.repeat(9), 95)))).work, 2 * names);
    // Enough of them for twice the work. Then it ends, and what was found before is there.
    let table = read(&units(2 * WORK_MAX / names, &[]));
    assert!((WORK_MAX..WORK_MAX + 3 * NAME_MAX).contains(&table.work), "{}", table.work);
    assert_eq!(table.ends.len(), 90);
    assert_eq!(at(&table.into_bytes(), CODE + 13).map(|(name, ..)| name.len()), Some(NAME_MAX - 10));
}

#[test]
fn places_have_a_limit() {
    // One byte each: the special opcodes that go an address and a line further, and those that go to the next line, back and forth.
    let there_and_back = [13 + 5 + 1, 13 + 5 - 1].repeat(PLACES_MAX);
    let start = [&[0, 5, 2, 3, 0, 0, 0][..], &[3, 5]].concat();
    let instructions = [&start[..], &there_and_back, &[0, 1, 1]].concat();
    let table = of_program(&module(&[(".debug_line", &unit(4, &[], &[(0, b"a.c")], &instructions))]));
    assert!(table.len() < 1000, "all are at one address: {}", table.len());
    let many = sequence(&[(3, 1, 1, 1), (4, 1, 2, 1), (5, 1, 3, 1), (6, 1, 4, 1)], 9).repeat(PLACES_MAX / 4);
    let units = unit(4, &[], &[(0, b"a.c")], &many[..many.len() / 16]).repeat(32);
    let table = of_program(&module(&[(".debug_line", &units)]));
    assert!(table.len() <= (PLACES_MAX + 10) * 12, "{}", table.len());
    assert_eq!(at(&table, CODE + 5), is("a.c", 3, 1));
}

/// Each byte changed in some ways, and each length: there is a table or none, and it has an answer or none for each offset.
#[test]
fn damaged_lines_and_tables_are_no_lines() {
    let strings = b"main.rs\0app.c\0";
    let files: [File<'_>; 2] = [(0, &[0, 0, 0, 0]), (1, &[8, 0, 0, 0])];
    let fifth = unit(5, &[b"/home/me", b"src"], &files, &sequence(ROWS, 40));
    let ask = |table: &[u8]| (0..200).filter_map(|offset| at(table, offset)).count();
    for lines in [fourth(), fifth] {
        let table = of_program(&module(&[(".debug_line_str", strings), (".debug_line", &lines)]));
        for (bytes, is_table) in [(&lines, false), (&table, true)] {
            for at in 0..bytes.len() {
                let changes = [0, 1, 0x7f, 0x80, 0xff].map(|change| {
                    let mut changed = bytes.clone();
                    changed[at] = change;
                    changed
                });
                for damaged in changes.iter().map(|changed| &changed[..]).chain([&bytes[..at]]) {
                    if is_table {
                        ask(damaged);
                    } else {
                        ask(&of_program(&module(&[(".debug_line_str", strings), (".debug_line", damaged)])));
                    }
                }
            }
        }
    }
}
