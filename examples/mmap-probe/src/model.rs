//! A long walk of random steps on one file and some mappings of it, beside a model in plain memory: what a mapping has shown of a page it
//! shows for ever, and what it shows for the first time the file contained at some moment since it was mapped.

use crate::{Result, remove};
use monohull_std::fs::{File, OpenOptions};
use monohull_std::io::{Read, Seek, SeekFrom, Write};
use monohull_std::mmap::{MmapMut, MmapOptions};
use monohull_std::prelude::*;
use monohull_std::thread;
use monohull_std::time::Duration;

const PAGE: usize = 4096;
/// The file never becomes longer, and seldom much shorter: so it has pieces that are huge pages, and some that are not.
const LONGEST: usize = 5 << 20;
const USUAL: usize = 2 << 20;
/// Most mappings at the same time.
const MAPPINGS: usize = 6;
/// Most contents that are remembered of a page that has not been seen.
const CONTENTS: usize = 16;

/// Numbers without an order, the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }
}

/// What is known of a page of a mapping.
enum Known {
    /// It has not been touched. Since it was mapped the file has had these contents there, and what it has now.
    Unseen(Vec<Vec<u8>>),
    /// It has been touched: it stays so.
    Seen(Vec<u8>),
}

/// A mapping, and what is known of its pages. It is a private copy, which is written to now and then.
struct Mapped {
    map: MmapMut,
    offset: usize,
    pages: Vec<Known>,
    /// The file has been shorter than the mapping since.
    cut: bool,
}

struct Walk {
    random: Random,
    file: File,
    /// What the file contains.
    model: Vec<u8>,
    mappings: Vec<Mapped>,
    /// The file may become shorter. (What is cut off a file of the host's is gone for mappings too.)
    cuts: bool,
}

/// How long a nap is: longer than any test, which does not wait for its end.
const NAP: Duration = Duration::from_secs(3600);

/// Walks so many steps, with naps between so many of them.
pub(crate) fn walk(folder: &str, steps: usize, cuts: bool, between_naps: Option<usize>) -> Result<()> {
    let path = format!("{folder}/model");
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path)?;
    let mut walk = Walk { random: Random(steps as u64), file, model: Vec::new(), mappings: Vec::new(), cuts };
    walk.resize(USUAL)?;
    let mut counts = [0usize; 7];
    for step in 0..steps {
        if between_naps.is_some_and(|between| step % between == 0) {
            thread::sleep(NAP);
        }
        let which = match walk.random.below(100) {
            0..30 => 0,
            30..34 => 1,
            34..44 => 2,
            44..49 => 3,
            49..85 => 4,
            85..90 => 5,
            _ => 6,
        };
        counts[which] += 1;
        let done = match which {
            0 => walk.write(step as u8),
            1 => walk.cut_or_extend(),
            2 => walk.map(),
            3 => walk.unmap(),
            4 => walk.touch(),
            5 => walk.change_copy(step as u8),
            _ => walk.compare(),
        };
        done.map_err(|error| format!("step {step}, of kind {which}: {error}"))?;
    }
    while !walk.mappings.is_empty() {
        for page in 0..walk.mappings[0].pages.len() {
            walk.see(0, page)?;
        }
        walk.unmap()?;
    }
    drop(walk);
    println!("{steps} steps: {counts:?}");
    remove(&path)
}

impl Walk {
    fn write(&mut self, byte: u8) -> Result<()> {
        let offset = self.random.below(self.model.len().max(1));
        let longest = if self.random.below(8) == 0 { 300_000 } else { 5000 };
        let len = 1 + self.random.below(longest);
        let end = (offset + len).min(LONGEST);
        self.remember(offset, end);
        let bytes: Vec<u8> = (offset..end).map(|place| byte ^ (place >> 7) as u8).collect();
        self.file.seek(SeekFrom::Start(offset as u64))?;
        self.file.write_all(&bytes)?;
        if self.model.len() < end {
            self.model.resize(end, 0);
        }
        self.model[offset..end].copy_from_slice(&bytes);
        Ok(())
    }

    fn cut_or_extend(&mut self) -> Result<()> {
        let to = if self.random.below(4) == 0 { self.random.below(LONGEST) } else { USUAL + self.random.below(USUAL) };
        self.resize(if self.cuts { to } else { to.max(self.model.len()) })
    }

    fn resize(&mut self, to: usize) -> Result<()> {
        let len = self.model.len();
        self.remember(to.min(len), to.max(len));
        for mapped in &mut self.mappings {
            mapped.cut |= to < mapped.offset + mapped.map.len();
        }
        self.file.set_len(to as u64)?;
        self.model.resize(to, 0);
        Ok(())
    }

    /// A range of the file is about to change: what mappings have not seen of it they may see as it was.
    fn remember(&mut self, start: usize, end: usize) {
        for mapped in &mut self.mappings {
            let offset = mapped.offset;
            for (index, page) in mapped.pages.iter_mut().enumerate() {
                let at = offset + index * PAGE;
                if let Known::Unseen(contents) = page
                    && at < end
                    && start < at + PAGE
                {
                    contents.push(content(&self.model, at));
                }
            }
        }
        for index in 0..self.mappings.len() {
            for page in 0..self.mappings[index].pages.len() {
                if matches!(&self.mappings[index].pages[page], Known::Unseen(contents) if contents.len() > CONTENTS) {
                    // Enough of them: from here on it has been seen. What is wrong with it is found later.
                    let seen = self.mappings[index].page(page).to_vec();
                    self.mappings[index].pages[page] = Known::Seen(seen);
                }
            }
        }
    }

    fn map(&mut self) -> Result<()> {
        if self.mappings.len() == MAPPINGS {
            return self.unmap();
        }
        let len = self.model.len();
        if len == 0 {
            return Ok(());
        }
        let offset = match self.random.below(8) {
            0 => self.random.below(len),
            1..4 => self.random.below(len.div_ceil(PAGE)) * PAGE,
            _ => 0,
        };
        let part = if self.random.below(2) == 0 { len - offset } else { 1 + self.random.below(len - offset) };
        let mut options = MmapOptions::new();
        options.offset(offset as u64).len(part);
        if self.random.below(4) == 0 {
            options.populate();
        }
        // Half of them are made read-only at first: another way to the same pages.
        let map = match self.random.below(2) {
            0 => options.map_copy(&self.file)?,
            _ => options.map(&self.file)?.make_mut()?,
        };
        let pages = (0..part.div_ceil(PAGE)).map(|_| Known::Unseen(Vec::new())).collect();
        self.mappings.push(Mapped { map, offset, pages, cut: false });
        Ok(())
    }

    fn unmap(&mut self) -> Result<()> {
        if self.mappings.is_empty() {
            return Ok(());
        }
        let index = self.random.below(self.mappings.len());
        for page in 0..self.mappings[index].pages.len() {
            if let Known::Seen(_) = self.mappings[index].pages[page] {
                self.see(index, page)?;
            }
        }
        self.mappings.swap_remove(index);
        Ok(())
    }

    fn touch(&mut self) -> Result<()> {
        let Some((index, page)) = self.any_page() else { return Ok(()) };
        // Neighbours too: pages come together.
        let last = (page + self.random.below(20)).min(self.mappings[index].pages.len() - 1);
        (page..=last).try_for_each(|page| self.see(index, page))
    }

    /// Looks at a page, and compares it with what is known.
    fn see(&mut self, index: usize, page: usize) -> Result<()> {
        let mapped = &mut self.mappings[index];
        let at = mapped.offset + page * PAGE;
        let seen = mapped.page(page).to_vec();
        match &mapped.pages[page] {
            Known::Seen(before) if *before == seen => Ok(()),
            Known::Seen(before) => {
                let place = before.iter().zip(&seen).position(|(a, b)| a != b).unwrap_or(0);
                Err(format!("byte {place} of the page at {at} was {} and is {}", before[place], seen[place]).into())
            }
            Known::Unseen(contents) => {
                let now = content(&self.model, at);
                let could_be = |place: usize| {
                    let byte = seen[place];
                    byte == now[place] || mapped.cut && byte == 0 || contents.iter().any(|old| old[place] == byte)
                };
                if let Some(place) = (0..seen.len()).find(|place| !could_be(*place)) {
                    let why = format!("byte {place} of the page at {at} is {} and never was", seen[place]);
                    return Err(why.into());
                }
                mapped.pages[page] = Known::Seen(seen);
                Ok(())
            }
        }
    }

    fn change_copy(&mut self, byte: u8) -> Result<()> {
        let Some((index, page)) = self.any_page() else { return Ok(()) };
        self.see(index, page)?;
        let mapped = &mut self.mappings[index];
        let (start, end) = mapped.bounds(page);
        let place = start + self.random.below(end - start);
        mapped.map[place] = byte;
        if let Known::Seen(seen) = &mut mapped.pages[page] {
            seen[place - start] = byte;
        }
        Ok(())
    }

    fn any_page(&mut self) -> Option<(usize, usize)> {
        let count = self.mappings.len();
        if count == 0 {
            return None;
        }
        let index = self.random.below(count);
        Some((index, self.random.below(self.mappings[index].pages.len())))
    }

    /// The file contains what was written to it, and nothing that was written to a copy.
    fn compare(&mut self) -> Result<()> {
        let offset = self.random.below(self.model.len().max(1));
        let end = (offset + 20_000).min(self.model.len());
        let mut bytes = vec![0; end.saturating_sub(offset)];
        self.file.seek(SeekFrom::Start(offset as u64))?;
        self.file.read_exact(&mut bytes)?;
        match bytes[..] == self.model[offset.min(end)..end] {
            true => Ok(()),
            false => Err(format!("the file is another one between {offset} and {end}").into()),
        }
    }
}

impl Mapped {
    /// Where a page begins and ends in the mapping.
    fn bounds(&self, page: usize) -> (usize, usize) {
        (page * PAGE, ((page + 1) * PAGE).min(self.map.len()))
    }

    fn page(&self, page: usize) -> &[u8] {
        let (start, end) = self.bounds(page);
        &self.map[start..end]
    }
}

/// A page of the file's; zeros behind its end.
fn content(model: &[u8], at: usize) -> Vec<u8> {
    let mut page = model.get(at..(at + PAGE).min(model.len())).unwrap_or_default().to_vec();
    page.resize(PAGE, 0);
    page
}
