//! Lays the program out so that its code and its constants can lie on huge pages (`process::huge`).

fn main() {
    println!("cargo:rerun-if-changed=Cargo.toml");
    // Segments with different rights share no piece of memory of this size.
    println!("cargo:rustc-link-arg-bins=-Wl,-z,max-page-size=0x200000");
    // And each begins with one, so that it lies on as few as it can.
    println!("cargo:rustc-link-arg-bins=-Wl,-z,separate-loadable-segments");
}
