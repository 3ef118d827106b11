//! The memory that this process may use: that of the machine, of its container, or of its resource limit.

use std::fs::read_to_string;
use std::path::Path;

/// Address space that a thread takes for its stack and its heap.
const THREAD_BYTES: usize = 34 * 1024 * 1024;
/// Threads of a large request: one of them waits for the other, whose priority is lower.
const THREADS: usize = 2;

/// `None` where the system does not say.
pub(crate) fn limit() -> Option<usize> {
    [machine(), address_space(), container()].into_iter().flatten().min()
}

/// The running requests for whose threads a quarter of the address space has room, of this number.
pub(crate) fn running(wanted: usize) -> usize {
    address_space().map_or(wanted, |bytes| wanted.min(bytes / 4 / (THREADS * THREAD_BYTES)).max(1))
}

/// The permits of a semaphore of memory: one for each KiB.
pub(crate) fn kibibytes(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX)
}

fn machine() -> Option<usize> {
    let kibibytes = field(&read_to_string("/proc/meminfo").ok()?, "MemTotal:")?;
    Some(kibibytes.saturating_mul(1024))
}

/// What `ulimit -v` leaves: much of the address space is taken, but not used, when the server starts.
fn address_space() -> Option<usize> {
    let limit = field(&read_to_string("/proc/self/limits").ok()?, "Max address space")?;
    let taken = field(&read_to_string("/proc/self/status").ok()?, "VmSize:")?;
    Some(limit.saturating_sub(taken.saturating_mul(1024)))
}

/// The least limit of the control groups around this process, of version 2 or 1.
fn container() -> Option<usize> {
    let groups = read_to_string("/proc/self/cgroup").ok()?;
    let files = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return None,
        };
        // In a container, the path may be that of the host.
        let inside = Path::new(path).strip_prefix("/").unwrap_or(Path::new(""));
        let groups = inside.ancestors().map(|group| Path::new(root).join(group).join(file));
        groups.filter_map(|file| read_to_string(file).ok()?.trim().parse().ok()).min()
    });
    files.min()
}

/// The first number after a name at the start of a line.
fn field(text: &str, name: &str) -> Option<usize> {
    text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_number_of_a_line_is_its_value() {
        assert_eq!(field("A: 1 kB\nMemTotal:  24 kB\n", "MemTotal:"), Some(24));
        assert_eq!(field("Max address space   unlimited   unlimited  bytes", "Max address space"), None);
        assert_eq!(field("Max address space   300   unlimited  bytes", "Max address space"), Some(300));
    }
}
