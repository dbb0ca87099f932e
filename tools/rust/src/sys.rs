// SPDX-License-Identifier: MIT OR LGPL-2.1
//! The C interface: structures in memory that the library, the kernel and this crate share, and
//! the exported functions of libtimerheap.
//!
//! The structures are those of `<timerheap.h>` and `<linux/timerheap.h>`, and `struct timespec`.
//! The files in `selftests/abi` record the C interface.  The tests below compare structures,
//! constants and functions with this record, except `Timespec` and `clock_gettime()`.  A field that
//! another thread or the kernel may write is an atomic, so a shared reference to it is valid.

use core::ffi::c_void;
use std::os::raw::{c_char, c_int, c_long};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

/// `struct timerheap_slot`: one timer.
#[repr(C)]
pub struct Slot {
    pub deadline: AtomicU64,
    pub period: AtomicU64,
    pub slack: AtomicU64,
    pub user_data: AtomicU64,
    pub queued: AtomicU64,
    pub expired_deadline: AtomicU64,
    pub fired: AtomicU64,
    pub expirations: AtomicU64,
}

/// `struct timerheap_ring`: the numbers of slots with unread events.  Entries follow the structure.
#[repr(C)]
pub struct Ring {
    pub head: AtomicU32,
    reserved0: [u32; 15],
    pub tail: AtomicU32,
    reserved1: u32,
    pub now: AtomicU64,
    reserved2: [u32; 12],
    program: [AtomicU64; 8],
    pub slots: [AtomicU32; 0],
}

/// `struct timerheap`: a context.  The library writes `nr` and `mask` when the context grows, and
/// `fd` in a child of `fork()`.
#[repr(C)]
pub struct Context {
    pub slots: *const Slot,
    pub ring: *const Ring,
    pub nr: AtomicU32,
    pub mask: AtomicU32,
    pub fd: AtomicI32,
    pub clock: c_int,
    pub process: *mut c_void,
}

/// `struct timerheap_setup`: the inputs and outputs of the open of a context.
#[repr(C)]
#[derive(Clone, Debug, Default)]
pub struct Setup {
    pub clock: u32,
    pub flags: u32,
    pub slots: u32,
    pub cpu: u32,
    pub slots_offset: u64,
    pub slots_size: u64,
    pub ring_offset: u64,
    pub ring_size: u64,
    pub slack: u64,
    pub layout: u32,
    pub slot_stride: u32,
    pub ring_entries: u32,
    pub max_slots: u32,
}

/// `struct timerheap_event`: an event.
#[repr(C)]
#[derive(Default)]
pub struct Event {
    pub user_data: u64,
    pub slot: u32,
    pub reserved: u32,
    pub expirations: u64,
    pub deadline: u64,
    pub fired: u64,
}

/// The type of `tv_sec` as the symbol `clock_gettime` writes it.  On most 32-bit machines the C
/// library has two structures `timespec`, and this symbol writes the one with 32-bit times.  riscv32
/// and x32, the 32-bit ABI of x86_64, have only the one with 64-bit times.
#[cfg(any(target_arch = "riscv32", target_arch = "x86_64"))]
type Seconds = i64;
#[cfg(not(any(target_arch = "riscv32", target_arch = "x86_64")))]
type Seconds = c_long;

/// `struct timespec`.  With 64-bit times, C has `tv_nsec` in 8 bytes.  On riscv32 and x32, `c_long`
/// and the padding have these 8 bytes.  The value is in the first 4: the byte order is
/// little-endian.
#[repr(C)]
pub struct Timespec {
    pub tv_sec: Seconds,
    pub tv_nsec: c_long,
}

pub const TIMERHEAP_LAYOUT: u32 = 2;
pub const TIMERHEAP_PROTOCOL: u32 = 3 << 16 | TIMERHEAP_LAYOUT;
pub const TIMERHEAP_NEVER: u64 = 0x7fff_ffff_ffff_ffff;
pub const TIMERHEAP_CHECKING: u64 = !0;
pub const TIMERHEAP_EXPIRATIONS: u64 = (1 << 62) - 1;
pub const TIMERHEAP_READING: u64 = 1 << 62;
pub const TIMERHEAP_CANCEL_ON_SET: u32 = 1 << 3;
pub const TIMERHEAP_ON_CPU: u32 = 1 << 4;
pub const TIMERHEAP_UNLIMITED: u32 = 1 << 5;
pub const TIMERHEAP_IN_KERNEL: u32 = 1 << 29;
pub const TIMERHEAP_IN_PROCESS: u32 = 1 << 30;
pub const TIMERHEAP_CLOCK_MANUAL: u32 = 63;

#[rustfmt::skip] // The test reads one declaration from each line.
extern "C" {
    pub fn __timerheap_open(setup: *mut Setup, size: usize, protocol: u32) -> *mut Context;
    pub fn __timerheap_discard_expirations(th: *mut Context, slot: u32) -> u64;
    pub fn __timerheap_expire(th: *const Context) -> bool;
    pub fn __timerheap_kick_ticker(th: *mut Context, slot: u32);
    pub fn timerheap_close(th: *mut Context);
    pub fn timerheap_engine(th: *const Context) -> *const c_char;
    pub fn timerheap_alloc(th: *mut Context) -> c_int;
    pub fn timerheap_free(th: *mut Context, slot: u32);
    pub fn timerheap_set_slack(th: *mut Context, slot: u32, slack: u64) -> c_int;
    pub fn timerheap_kick(th: *mut Context, slots: *const u32, nr: u32) -> c_int;
    pub fn timerheap_grow(th: *mut Context, slots: u32) -> c_int;
    pub fn timerheap_wait(th: *mut Context, timeout: i64) -> c_int;
    pub fn timerheap_sync(th: *mut Context, next: *mut u64) -> c_int;
    pub fn timerheap_next_before(th: *mut Context, event: *mut Event, before: u64) -> bool;
    pub fn timerheap_advance(th: *mut Context, to: u64, limit: u32) -> i64;
    pub fn timerheap_advance_next(th: *mut Context) -> i64;
    pub fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int;
}

#[cfg(test)]
mod tests {
    //! Compare this file with the record of the C interface in `selftests/abi`.  The test
    //! `selftests/abi/check` compares the record with the headers.  The environment variable
    //! `TIMERHEAP_ABI` may name another folder that has the record.

    use super::*;
    use std::collections::{BTreeMap, BTreeSet};
    use std::mem::{size_of, size_of_val, MaybeUninit};
    use std::path::PathBuf;
    use std::ptr::addr_of;

    /// Read the record.  Return: its lines; `None` if a file is missing, as in a published crate.
    fn record() -> Option<BTreeSet<String>> {
        let here = concat!(env!("CARGO_MANIFEST_DIR"), "/../../selftests/abi");
        let folder = PathBuf::from(std::env::var("TIMERHEAP_ABI").unwrap_or_else(|_| here.into()));
        let mut lines = BTreeSet::new();
        for part in ["header", "library"] {
            match std::fs::read_to_string(folder.join(part)) {
                Ok(text) => lines.extend(text.lines().map(String::from)),
                Err(error) => {
                    eprintln!("skipped: {}: {error}", folder.display());
                    return None;
                }
            }
        }
        Some(lines)
    }

    /// Compare a structure with the record: its size, and the name, offset and size of each field.
    macro_rules! same_structure {
        ($lines:expr, $type:ty, $name:literal, $($field:ident),*) => {{
            let memory = MaybeUninit::<$type>::uninit();
            let base = memory.as_ptr();
            let mut fields = BTreeMap::new();
            $(
                // SAFETY: the address is inside of `memory`.  No reference is made, and nothing
                // is read but the size of the field's type.
                let (offset, size) = unsafe {
                    let field = addr_of!((*base).$field);
                    (field as usize - base as usize, size_of_pointee(field))
                };
                fields.insert(offset, (stringify!($field), size));
            )*
            let mut expected: Vec<String> = fields
                .iter()
                .map(|(offset, (field, size))| format!("field {}.{field} {offset} {size}", $name))
                .collect();
            expected.push(format!("struct {} {}", $name, size_of::<$type>()));
            let mut found: Vec<(usize, String)> = $lines
                .iter()
                .filter_map(|line| {
                    let word: Vec<&str> = line.split(' ').collect();
                    if word[0] == "field" && word[1].starts_with(concat!($name, ".")) {
                        Some((word[2].parse().unwrap(), word[..4].join(" ")))
                    } else if word[0] == "struct" && word[1] == $name {
                        Some((usize::MAX, line.clone()))
                    } else {
                        None
                    }
                })
                .collect();
            found.sort();
            let found: Vec<String> = found.into_iter().map(|(_, line)| line).collect();
            assert_eq!(expected, found);
        }};
    }

    fn size_of_pointee<T>(_: *const T) -> usize {
        size_of::<T>()
    }

    #[test]
    fn structures_have_the_layout_of_the_c_header() {
        let lines = match record() {
            Some(lines) => lines,
            None => return,
        };
        same_structure!(
            lines,
            Slot,
            "timerheap_slot",
            deadline,
            period,
            slack,
            user_data,
            queued,
            expired_deadline,
            fired,
            expirations
        );
        same_structure!(
            lines,
            Ring,
            "timerheap_ring",
            head,
            reserved0,
            tail,
            reserved1,
            now,
            reserved2,
            program,
            slots
        );
        same_structure!(
            lines,
            Setup,
            "timerheap_setup",
            clock,
            flags,
            slots,
            cpu,
            slots_offset,
            slots_size,
            ring_offset,
            ring_size,
            slack,
            layout,
            slot_stride,
            ring_entries,
            max_slots
        );
        same_structure!(
            lines,
            Event,
            "timerheap_event",
            user_data,
            slot,
            reserved,
            expirations,
            deadline,
            fired
        );
        // The structure has pointers, and the record is of a 64-bit machine.
        if size_of_val(&std::ptr::null::<u8>()) == 8 {
            same_structure!(lines, Context, "timerheap", slots, ring, nr, mask, fd, clock, process);
        }
    }

    #[test]
    fn constants_have_the_values_of_the_c_header() {
        let lines = match record() {
            Some(lines) => lines,
            None => return,
        };
        let mut checked = 0;
        for line in include_str!("sys.rs").lines() {
            let rest = match line.strip_prefix("pub const TIMERHEAP_") {
                Some(rest) => rest,
                None => continue,
            };
            let name = rest.split(':').next().unwrap();
            let value = match name {
                "LAYOUT" => TIMERHEAP_LAYOUT.into(),
                "PROTOCOL" => TIMERHEAP_PROTOCOL.into(),
                "NEVER" => TIMERHEAP_NEVER,
                "CHECKING" => TIMERHEAP_CHECKING,
                "EXPIRATIONS" => TIMERHEAP_EXPIRATIONS,
                "READING" => TIMERHEAP_READING,
                "CANCEL_ON_SET" => TIMERHEAP_CANCEL_ON_SET.into(),
                "ON_CPU" => TIMERHEAP_ON_CPU.into(),
                "UNLIMITED" => TIMERHEAP_UNLIMITED.into(),
                "IN_KERNEL" => TIMERHEAP_IN_KERNEL.into(),
                "IN_PROCESS" => TIMERHEAP_IN_PROCESS.into(),
                "CLOCK_MANUAL" => TIMERHEAP_CLOCK_MANUAL.into(),
                _ => panic!("TIMERHEAP_{name} is not compared"),
            };
            let prefix = if name == "PROTOCOL" { "__" } else { "" };
            let expected = format!("constant {prefix}TIMERHEAP_{name} {value:#x}");
            assert!(lines.contains(&expected), "not in the record: {expected}");
            checked += 1;
        }
        assert_eq!(checked, 12);
    }

    /// Translate a type of a declaration above to C, as the record has it.
    fn type_in_c(rust: &str) -> &str {
        match rust {
            "*mut Context" => "struct timerheap *",
            "*const Context" => "const struct timerheap *",
            "*mut Setup" => "struct timerheap_setup *",
            "*mut Event" => "struct timerheap_event *",
            "*const u32" => "const uint32_t *",
            "*mut u64" => "uint64_t *",
            "*const c_char" => "const char *",
            "c_int" => "int",
            "bool" => "_Bool",
            "usize" => "size_t",
            "u32" => "uint32_t",
            "u64" => "uint64_t",
            "i64" => "int64_t",
            _ => panic!("{rust} has no translation"),
        }
    }

    #[test]
    fn functions_have_the_types_of_the_c_library() {
        let lines = match record() {
            Some(lines) => lines,
            None => return,
        };
        let mut checked = 0;
        for line in include_str!("sys.rs").lines() {
            let rest = match line.strip_prefix("    pub fn ") {
                Some(rest) => rest,
                None => continue,
            };
            let (name, rest) = rest.split_once('(').unwrap();
            if name == "clock_gettime" {
                continue;
            }
            let (arguments, result) = rest.trim_end_matches(';').split_once(')').unwrap();
            let arguments: Vec<&str> = arguments
                .split(", ")
                .map(|argument| type_in_c(argument.split_once(": ").unwrap().1))
                .collect();
            let result = result.strip_prefix(" -> ").map_or("void", type_in_c);
            let space = if result.ends_with('*') { "" } else { " " };
            let arguments = arguments.join(", ");
            let expected = format!("function {name}@TIMERHEAP_0.9 {result}{space}({arguments})");
            assert!(lines.contains(&expected), "not in the record: {expected}");
            checked += 1;
        }
        assert_eq!(checked, 16);
    }
}
