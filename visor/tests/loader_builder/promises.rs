//! The guarantees of an accepted image. Shared by the tests and the fuzz target.

use monohull_domain::image::{Access, Image, Segment};

/// Panics if `image`, read from `file`, breaks a promise.
pub(crate) fn check_promises(image: &Image, file: &[u8]) {
    for pair in image.segments.windows(2) {
        assert!(pair[0].pages().end <= pair[1].pages().start, "segments share a page");
    }
    for segment in &image.segments {
        assert!(segment.file_offset + segment.file_size <= file.len() as u64, "a segment ends outside the file");
        assert!(
            segment.file_size <= segment.memory_size && segment.pages().end <= image.span,
            "a segment is too large"
        );
        assert!(segment.access == Access::ReadWrite || segment.file_size == segment.memory_size, "zeros in code");
        assert_eq!(segment.address % 4096, segment.file_offset % 4096, "a segment cannot be mapped");
    }
    let holds = |access: Access, start: u64, end: u64| {
        let inside = |address: u64, size: u64| address <= start && end <= address + size;
        image.segments.iter().any(|segment| segment.access == access && inside(segment.address, segment.file_size))
    };
    assert!(holds(Access::ReadExecute, image.start, image.start + 1), "the start is not code");
    for relocation in image.relocations.iter() {
        assert_eq!(relocation.offset % 8, 0, "a word is misaligned");
        assert!(holds(Access::ReadWrite, relocation.offset, relocation.offset + 8), "a word is not data");
    }
    assert!(image.relocations.iter().is_sorted_by(|one, next| one.offset < next.offset), "words are not in order");
    if let Some(relro) = &image.relro {
        let inside = image.segments.iter().any(|segment| {
            let pages = segment.pages();
            segment.access == Access::ReadWrite && pages.start <= relro.start && relro.end <= pages.end
        });
        assert!(inside && relro.start % 4096 == 0 && relro.end % 4096 == 0, "relro is not pages of one segment");
    }
    if let Some(tls) = image.tls {
        let bytes = |segment: &Segment| {
            segment.address <= tls.address && tls.address + tls.file_size <= segment.address + segment.file_size
        };
        assert!(tls.file_size == 0 || image.segments.iter().any(bytes), "thread-local bytes are in no segment");
        assert!(tls.file_size <= tls.memory_size && tls.memory_size <= 1 << 30, "thread-local variables are too large");
        assert!(tls.align.is_power_of_two() && tls.align <= 4096, "a strange alignment of thread-local variables");
        assert!(tls.address <= image.span, "thread-local variables are outside of the image");
    }
    assert!(image.span <= 1 << 30 && image.span.is_multiple_of(4096), "the span is not whole pages");
}
