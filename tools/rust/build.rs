// SPDX-License-Identifier: MIT OR LGPL-2.1
//! Find libtimerheap.
//!
//! If TIMERHEAP_LIB_DIR is set, link the archive libtimerheap.a of that folder.  Otherwise ask
//! pkg-config, or the command that PKG_CONFIG names, for the library.

use std::env;
use std::path::Path;
use std::process::{exit, Command};

/// Print why the library is not found, and fail.
fn fail(reason: &str) -> ! {
    eprintln!("timerheap: {reason}");
    eprintln!("timerheap: install libtimerheap, or set TIMERHEAP_LIB_DIR to its folder");
    exit(1);
}

/// Translate the options -L and -l, which pkg-config prints, for cargo.  Ignore other options.
fn link(options: &str) {
    for option in options.split_whitespace() {
        if let Some(folder) = option.strip_prefix("-L") {
            println!("cargo:rustc-link-search=native={folder}");
        } else if let Some(library) = option.strip_prefix("-l") {
            println!("cargo:rustc-link-lib={library}");
        }
    }
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=TIMERHEAP_LIB_DIR");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");

    if let Ok(folder) = env::var("TIMERHEAP_LIB_DIR") {
        let archive = Path::new(&folder).join("libtimerheap.a");
        if !archive.exists() {
            fail(&format!("{} does not exist", archive.display()));
        }
        println!("cargo:rerun-if-changed={}", archive.display());
        println!("cargo:rustc-link-search=native={folder}");
        println!("cargo:rustc-link-lib=static=timerheap");
        return;
    }
    let command = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".into());
    match Command::new(&command).args(["--libs", "timerheap"]).output() {
        Err(error) => fail(&format!("{command}: {error}")),
        Ok(output) if !output.status.success() => {
            fail(&format!("{command}: {}", String::from_utf8_lossy(&output.stderr).trim()))
        }
        Ok(output) => link(&String::from_utf8_lossy(&output.stdout)),
    }
}
