//! miniz_oxide; lz4_flex.

use crate::hex;

pub(crate) fn show() {
    // What the C library zlib makes of a text.
    let zlib = [
        0x78, 0x9c, 0xcb, 0x28, 0xcd, 0xc9, 0x51, 0x48, 0x4c, 0x2b, 0x49, 0x2d, 0x52, 0xc8, 0x40, 0x65, 0x02, 0x00,
        0x83, 0x9c, 0x09, 0xc4,
    ];
    let text = miniz_oxide::inflate::decompress_to_vec_zlib(&zlib).map(String::from_utf8);
    println!("miniz_oxide.inflated {text:?}");
    let long: Vec<u8> = (0..100_000u32).map(|n| (n / 7 % 251) as u8).collect();
    let small = miniz_oxide::deflate::compress_to_vec_zlib(&long, 6);
    println!("miniz_oxide.smaller {}", small.len() * 50 < long.len());
    let back = miniz_oxide::inflate::decompress_to_vec_zlib(&small);
    println!("miniz_oxide.back {}", back.is_ok_and(|back| back == long));
    println!("miniz_oxide.refused {}", miniz_oxide::inflate::decompress_to_vec_zlib(&small[..50]).is_err());

    // A literal run of one `a`, a match of 13 more, five literals to end with: written by hand from the format's
    // description.
    let block = [0x19, b'a', 1, 0, 0x50, b'h', b'u', b'l', b'l', b's'];
    println!("lz4_flex {:?}", lz4_flex::block::decompress(&block, 19).map(String::from_utf8));
    let packed = lz4_flex::compress_prepend_size(&long);
    println!("lz4_flex.back {}", lz4_flex::decompress_size_prepended(&packed).is_ok_and(|back| back == long));
    println!("lz4_flex.length {}", hex(&packed[..4]));
}
