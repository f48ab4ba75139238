//! Checkpoints that were captured on one processor, and are kept for tests on any.

use monohull_checkpoint::record::{ChainRecord, Parent};
use monohull_checkpoint::{Checkpoint, Content, Heat, Key, Packing, Pages, Processor, Trust, seal_bytes, write};
use std::fs::File;
use std::path::Path;

/// The same as another file, for any processor, and with a parent that was written in this way: its name and its bytes. The key is that of both.
pub(crate) fn anew(path: &Path, key: &Key, packing: Packing, parent: Option<(&str, &[u8])>) -> Vec<u8> {
    let file = File::open(path).expect("it was written");
    let read = Checkpoint::read(&file, Trust::Key(key)).expect("it is good");
    let mut contents = read.contents().clone();
    // The function looks at no feature of the processor, and has nothing in registers that only some have.
    contents.identity.processor = Processor { words: vec![0] };
    if let Some((name, bytes)) = parent {
        let parent = Checkpoint::read(bytes, Trust::Key(key)).expect("it is good");
        contents.identity.parent = Some(Parent { id: parent.contents().identity.id, digest: parent.digest() });
        let depth = contents.chain.map_or(1, |chain| chain.depth);
        contents.chain = Some(ChainRecord { file: name.to_owned(), depth });
    }
    let stored: Vec<Vec<u8>> = (0..read.stored_pages())
        .map(|page| {
            let mut bytes = vec![0; 4096];
            read.read_pages(page, &mut bytes).expect("it is good");
            bytes
        })
        .collect();
    let mut pages = Pages::new();
    for run in read.runs() {
        for (index, address) in (run.address..run.end()).step_by(4096).enumerate() {
            let added = match run.content {
                Content::Here { stored: first } => pages.here(address, &stored[first as usize + index], Heat::Rest),
                Content::Parent => pages.parent(address, 1),
                Content::Zero => pages.zero(address, 1),
                Content::Base => pages.base(address, 1),
            };
            added.expect("user memory");
        }
    }
    let mut bytes = Vec::new();
    write(&mut bytes, &contents, &pages, packing).expect("written");
    seal_bytes(&mut bytes, key).expect("sealed");
    bytes
}
