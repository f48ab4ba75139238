//! The limits of a workflow file: how much a field may ask for, what it gets by default, and what texts look like.
//!
//! Both the JSON Schema ([`document`](super::document)) and the reader ([`shape`](super::shape)) take them from here.

/// The most instances of a workflow, all its steps together. Each takes some hundred bytes of the visor and of the report;
/// more than the domain has cells (256) wait for their turn.
pub const INSTANCES_MAX: u64 = 100_000;
/// The most attempts a retry policy may ask for.
pub const ATTEMPTS_MAX: u64 = 1_000;
/// The largest factor by which pauses between attempts may grow.
pub const BACKOFF_MAX: f64 = 100.0;
/// The longest name of a workflow, function or step, in bytes.
pub const NAME_MAX: usize = 63;
/// The most user threads an instance may be allowed.
pub const THREADS_MAX: u64 = 1_000_000;
/// The least memory an instance can be given: it must hold at least its own heap's first pages.
pub const MEMORY_MIN: u64 = 64 * 1024;
/// Memory of an instance unless the file says otherwise.
pub const MEMORY_DEFAULT: u64 = 1 << 30;
/// Bytes of slot buffers unless the file says otherwise.
pub const SLOTS_DEFAULT: u64 = 4 << 30;
/// Bytes of output kept per instance unless the file says otherwise.
pub const OUTPUT_DEFAULT: u64 = 1 << 20;
/// The most bytes of output that can be kept per instance.
pub const OUTPUT_MAX: u64 = 1 << 30;
/// User threads of one instance unless the file says otherwise.
pub const THREADS_DEFAULT: u32 = 1024;
/// Milliseconds before the second attempt unless the file says otherwise.
pub const INTERVAL_DEFAULT_MS: u64 = 100;
/// Factor between pauses unless the file says otherwise.
pub const BACKOFF_DEFAULT: f64 = 2.0;

/// The most file systems of one workflow.
pub const MOUNTS_MAX: usize = monohull_abi::file::MOUNTS_MAX;
/// The longest mount point, in bytes.
pub const MOUNT_POINT_MAX: usize = 255;
/// The least a file system in memory can be given.
pub const FILES_MIN: u64 = 64 * 1024;

/// What a mount point looks like, as a regular expression.
pub const MOUNT_POINT_PATTERN: &str = r"^/$|^(/(?!\.\.?(/|$))[^/\u0000]+)+$";
/// What a name looks like, as a regular expression.
pub const NAME_PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$";
/// The same for workflows that may be sent events: a name, or all.
pub const RECEIVER_PATTERN: &str = r"^(\*|[A-Za-z0-9][A-Za-z0-9_-]{0,62})$";
/// What a duration looks like, as a regular expression.
pub const DURATION_PATTERN: &str = "^[0-9]+(us|ms|s|m|h|d)$";
/// What a size with a unit looks like, as a regular expression.
pub const SIZE_PATTERN: &str = "^[0-9]+(B|KiB|MiB|GiB|TiB)$";
/// What the name of a slot looks like, as a regular expression: anything without `=` and control characters.
pub const SLOT_PATTERN: &str = r"^[^=\u0000-\u001f\u007f]+$";

/// What the slots of a step's instances look like, as a regular expression.
pub const EACH_PATTERN: &str = r"^[^=\u0000-\u001f\u007f]+\*$";

/// What a media type looks like, as a regular expression.
pub const MEDIA_TYPE_PATTERN: &str = r"^[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+(;[\u0020-\u007e]*)?$";
/// The longest media type, in bytes.
pub const MEDIA_TYPE_MAX: usize = 255;
/// What an `image` begins with that is not a file but a function registered with a server.
pub const REGISTERED: &str = "function:";
/// What stands for the number of an instance in `takes` and `fills`.
pub const INDEX: &str = "{index}";
/// What an entry of a network's lists looks like, as a regular expression.
pub const NETWORK_RULE_PATTERN: &str = r"^(\[[^\[\]]+\]|[^:\[\]]+):([0-9]{1,5}(-[0-9]{1,5})?|\*)$";

/// What the name of a host looks like, as a regular expression.
pub const HOST_NAME_PATTERN: &str = r"^([A-Za-z0-9_-]{1,63}\.)*[A-Za-z_][A-Za-z0-9_-]{0,62}\.?$";
/// What the name of a header looks like, as a regular expression.
pub const HEADER_NAME_PATTERN: &str = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$";
