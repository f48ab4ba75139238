//! Pointers that own, cells, and `std::mem`.

use super::check;
use std::alloc::{GlobalAlloc, Layout};
use std::any::{Any, TypeId, type_name};
use std::borrow::Cow;
use std::cell::{Cell, LazyCell, OnceCell, RefCell};
use std::mem::{self, ManuallyDrop, MaybeUninit};
use std::pin::Pin;
use std::rc::{self, Rc};
use std::sync::{Arc, Weak};

/// Writes its name down when it is dropped.
struct Noted<'a>(&'a RefCell<Vec<&'static str>>, &'static str);

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        self.0.borrow_mut().push(self.1);
    }
}

pub(super) fn all() {
    shared();
    cells();
    boxes();
    layout();
}

fn shared() {
    let one = Rc::new(5);
    let weak = Rc::downgrade(&one);
    check!("rc_counts", (Rc::strong_count(&one), Rc::weak_count(&one), weak.upgrade()));
    let two = one.clone();
    check!(
        "rc_identity",
        (Rc::ptr_eq(&one, &two), Rc::try_unwrap(one).map_err(|_| "shared"), Rc::into_inner(two), weak.upgrade())
    );
    check!("rc_make_mut", {
        let mut a = Rc::new(1);
        let b = a.clone();
        *Rc::make_mut(&mut a) = 2;
        (a, b)
    });
    check!("rc_cyclic", {
        let node = Rc::new_cyclic(|me: &rc::Weak<i32>| me.upgrade().map_or(7, |n| *n));
        *node
    });
    check!("rc_str", (Rc::<str>::from("text").len(), Rc::<[u8]>::from([1, 2]).iter().sum::<u8>()));
    let one: Arc<dyn Any + Send + Sync> = Arc::new(5u8);
    check!("arc_downcast", (one.clone().downcast::<u8>().ok(), one.downcast::<i8>().is_err()));
    let arc = Arc::new(String::from("a"));
    let weak: Weak<String> = Arc::downgrade(&arc);
    check!(
        "arc_counts",
        (Arc::strong_count(&arc), Arc::weak_count(&arc), weak.strong_count(), Arc::ptr_eq(&arc, &arc.clone()))
    );
    check!("arc_get_mut", {
        let mut arc = arc;
        let with_weak = Arc::get_mut(&mut arc).is_some();
        drop(weak);
        (with_weak, Arc::get_mut(&mut arc).is_some(), Arc::unwrap_or_clone(arc))
    });
    check!("arc_across_threads", {
        let arc = Arc::new(vec![1, 2, 3]);
        let theirs = arc.clone();
        std::thread::spawn(move || theirs.iter().sum::<i32>()).join().ok()
    });
}

fn cells() {
    let cell = Cell::new(1);
    check!("cell", (cell.get(), cell.replace(2), cell.take(), cell.into_inner()));
    let cell = RefCell::new(vec![1]);
    check!(
        "ref_cell",
        (
            cell.try_borrow().map(|v| v.len()).ok(),
            {
                let _m = cell.borrow_mut();
                (
                    cell.try_borrow().map(drop).map_err(|e| e.to_string()),
                    cell.try_borrow_mut().map(drop).map_err(|e| e.to_string()),
                )
            },
            cell.replace(vec![])
        )
    );
    let once = OnceCell::new();
    check!("once_cell", (once.get().copied(), once.set(1), once.set(2), *once.get_or_init(|| 3), once.into_inner()));
    let lazy = LazyCell::new(|| 6 * 7);
    check!("lazy_cell", (format!("{lazy:?}"), *lazy, format!("{lazy:?}")));
}

fn boxes() {
    let log = RefCell::default();
    let order = (Noted(&log, "first"), Noted(&log, "second"));
    let kept = ManuallyDrop::new(Noted(&log, "kept"));
    let boxed: Box<Noted<'_>> = Box::new(Noted(&log, "boxed"));
    drop(boxed);
    drop(order);
    check!("order_of_drops", (&log, kept.1));
    drop(ManuallyDrop::into_inner(kept));
    check!("dropped_at_last", log.borrow().last());
    let any: Box<dyn Any> = Box::new(1u8);
    check!("any", (any.is::<u8>(), any.downcast_ref::<i8>().copied(), any.downcast::<u8>().ok()));
    check!("type_names", (type_name::<Option<String>>(), TypeId::of::<u8>() == TypeId::of::<i8>()));
    check!("closures", {
        let mut n = 0;
        let mut next: Box<dyn FnMut() -> i32> = Box::new(move || {
            n += 1;
            n
        });
        (next(), next())
    });
    check!(
        "boxed_slices",
        (Box::<[u8]>::from(vec![1, 2]).into_vec(), Box::<str>::from("x").into_string(), *Box::new([1; 3]))
    );
    check!("leak", Box::leak(Box::new(5)));
    check!("pin", (Pin::new(&mut 3).get_mut(), Box::pin(4).as_ref().get_ref()));
    check!(
        "cow",
        (
            Cow::from("a").is_empty(),
            Cow::<[u8]>::Owned(vec![1]).into_owned(),
            Cow::Borrowed("x") == Cow::<str>::Owned("x".into())
        )
    );
    check!("large_alignment", {
        #[repr(align(4096))]
        struct Page([u8; 4096]);
        let page = Box::new(Page([7; 4096]));
        (&raw const *page as usize % 4096, page.0[4095])
    });
}

fn layout() {
    check!("swap_replace_take", {
        let (mut a, mut b) = (1, 2);
        mem::swap(&mut a, &mut b);
        (mem::replace(&mut a, 9), mem::take(&mut b), a, b)
    });
    check!(
        "sizes",
        (
            size_of::<Option<Box<u8>>>(),
            size_of::<Option<u32>>(),
            align_of::<u64>(),
            size_of_val("four"),
            mem::needs_drop::<String>()
        )
    );
    check!("discriminants", mem::discriminant(&Some(1)) == mem::discriminant(&Some(2)));
    check!("maybe_uninit", {
        let mut m = MaybeUninit::new(3);
        *m.write(4)
    });
    check!(
        "layouts",
        (
            Layout::new::<u64>(),
            Layout::from_size_align(3, 3).map_err(|e| e.to_string()),
            Layout::array::<u16>(5),
            Layout::new::<u8>().extend(Layout::new::<u32>()).map(|(_, at)| at)
        )
    );
    fn is_an_allocator<A: GlobalAlloc>(_: &A) -> bool {
        true
    }
    check!("system_allocator", is_an_allocator(&std::alloc::System));
}
