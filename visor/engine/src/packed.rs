//! A workflow as bytes, for the process that runs it. They are made once, however often the workflow runs.

use super::Ready;
use monohull_domain::image::Image;
use monohull_domain::image::map::LoadedImage;
use monohull_workflow::Plan;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The plan, what the loader found in each image, which of these each function has, and most carrier threads.
type Packed<P, I> = (P, Vec<I>, Vec<u32>, u32);

/// Bytes of a plan, as a rule.
const PLAN: usize = 4 << 10;

impl Ready {
    /// The workflow without the bytes of its images, which are those of [`Self::distinct_images`], in that order.
    pub fn packed(&self) -> Result<&[u8], postcard::Error> {
        if self.packed.get().is_none() {
            // If two are made at once, one is kept.
            let _ = self.packed.set(self.pack()?.into());
        }
        Ok(self.packed.get().expect("just set"))
    }

    fn pack(&self) -> Result<Vec<u8>, postcard::Error> {
        let distinct = self.distinct_images();
        let index = |image| distinct.iter().position(|known| Arc::ptr_eq(known, image)).expect("one of the workflow's");
        let functions = self.images.iter().map(|image| index(image) as u32).collect();
        let images: Vec<&Image> = distinct.iter().map(|image| &image.image).collect();
        // Most of the bytes, and some for the plan.
        let room = images.iter().map(|image| image.relocations.bytes()).sum::<usize>() + PLAN;
        let packed: Packed<&Plan, &Image> = (&self.plan, images, functions, self.carriers as u32);
        postcard::to_extend(&packed, Vec::with_capacity(room))
    }

    /// The workflow again, with the next of these files for each image. The packer is trusted.
    pub fn unpack(bytes: &[u8], files: &mut impl Iterator<Item = OwnedFd>) -> Result<Ready, String> {
        let (plan, images, functions, carriers): Packed<Plan, Image> =
            postcard::from_bytes(bytes).map_err(|error| format!("its plan: {error}"))?;
        let mut distinct = Vec::with_capacity(images.len());
        for image in images {
            let file = files.next().ok_or("it lacks a file")?;
            let image = LoadedImage::of_sealed(image, file).map_err(|error| format!("an image: {error}"))?;
            distinct.push(Arc::new(image));
        }
        let images = functions.iter().map(|index| distinct.get(*index as usize).cloned());
        let images = images.collect::<Option<_>>().ok_or("it names an image that it lacks")?;
        Ok(Ready::of_parts(Arc::new(plan), images, carriers as usize))
    }
}
