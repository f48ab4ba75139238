//! What `monohull new` writes.

fn main() {
    println!("Hello from Monohull!");
}
