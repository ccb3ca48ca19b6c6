//! The allocator of this library's values. It has a reserve: memory for raising an error when there is no other.
//!
//! While an error is on its way, and only then, values are taken from there if the system has no memory. All of it is free
//! again when the error has been reported.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The copies of an error's texts ([`super::out_of_memory::LONGEST_TEXT`]) take most of it, several times each.
const SIZE: usize = 256 * 1024;

/// Memory of the library itself, which is there from the moment when it is loaded.
#[repr(align(64))]
struct Block(UnsafeCell<[u8; SIZE]>);

// SAFETY: the bytes are only handed out, each to one owner at a time.
unsafe impl Sync for Block {}

static BLOCK: Block = Block(UnsafeCell::new([0; SIZE]));

/// Whether an error is on its way to PostgreSQL, or the library is being loaded.
static OPEN: AtomicBool = AtomicBool::new(true);

/// Whether the library has been loaded. Until then PostgreSQL calls functions that may not fail at all.
static LOADED: AtomicBool = AtomicBool::new(false);

static STATE: Mutex<State> = Mutex::new(State {
    kept: 0,
    used: 0,
    living: 0,
});

/// Values are put one behind the other. When none of them lives, all of the reserve is free again.
struct State {
    /// The bytes at the beginning that the library keeps as long as the process lives.
    kept: usize,
    used: usize,
    /// How many values live behind `kept`.
    living: usize,
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets values be put into the reserve until [`close`].
pub fn open() {
    OPEN.store(true, Ordering::Relaxed);
}

/// An error has reached PostgreSQL.
pub fn close() {
    OPEN.store(!LOADED.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// Runs `f`. Its values live longer than an error that is on its way, so they are not put into the reserve.
pub fn aside<R>(f: impl FnOnce() -> R) -> R {
    let was_open = OPEN.swap(false, Ordering::Relaxed);
    let result = f();
    OPEN.store(was_open, Ordering::Relaxed);
    result
}

/// The library has been loaded. Its values in the reserve stay there.
pub fn loaded() {
    let mut state = state();
    state.kept = state.used;
    state.living = 0;
    LOADED.store(true, Ordering::Relaxed);
    close();
}

/// Returns whether memory is in the reserve.
pub fn contains<T>(memory: *const T) -> bool {
    memory.addr().wrapping_sub(BLOCK.0.get().addr()) < SIZE
}

/// Gives memory in the reserve back.
pub fn give_back<T>(memory: *const T) {
    let mut state = state();
    if memory.addr() - BLOCK.0.get().addr() >= state.kept {
        state.living = state.living.saturating_sub(1);
        if state.living == 0 {
            state.used = state.kept;
        }
    }
}

/// Memory for a value that the system has no memory for. NULL if no error is on its way, or if it does not fit.
#[cold]
#[inline(never)]
fn take(layout: Layout) -> *mut u8 {
    if !OPEN.load(Ordering::Relaxed) && !std::thread::panicking() {
        return null_mut();
    }
    let mut state = state();
    let start = state.used.next_multiple_of(layout.align());
    match start.checked_add(layout.size()) {
        // The block's own alignment is enough for every value that an error has.
        Some(end) if end <= SIZE && layout.align() <= align_of::<Block>() => {
            state.used = end;
            state.living += 1;
            // SAFETY: the place is within the block.
            unsafe { BLOCK.0.get().cast::<u8>().add(start) }
        }
        _ => null_mut(),
    }
}

/// The system's allocator, and the reserve behind it.
struct Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

// SAFETY: memory is the system's, or a part of the block that nobody else has. Each is given back to where it is from.
// Nothing here unwinds.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are the system's conditions.
        let memory = unsafe { System.alloc(layout) };
        if memory.is_null() { take(layout) } else { memory }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are the system's conditions.
        let memory = unsafe { System.alloc_zeroed(layout) };
        if !memory.is_null() {
            return memory;
        }
        let memory = take(layout);
        if !memory.is_null() {
            // SAFETY: the memory has the size of the layout.
            unsafe { memory.write_bytes(0, layout.size()) };
        }
        memory
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if contains(memory) {
            give_back(memory);
        } else {
            // SAFETY: the memory is the system's, with the caller's layout.
            unsafe { System.dealloc(memory, layout) };
        }
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !contains(memory) {
            // SAFETY: the memory is the system's, and the caller's promises are the system's conditions.
            let moved = unsafe { System.realloc(memory, layout, size) };
            if !moved.is_null() {
                return moved;
            }
        }
        // SAFETY: the caller promises a size that makes a layout.
        let moved = take(unsafe { Layout::from_size_align_unchecked(size, layout.align()) });
        if !moved.is_null() {
            // SAFETY: both are as long as the shorter one, and are different memory. The old memory is given back once.
            unsafe {
                moved.copy_from_nonoverlapping(memory, layout.size().min(size));
                self.dealloc(memory, layout);
            }
        }
        moved
    }
}
