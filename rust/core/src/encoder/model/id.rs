//! A model's id: a hash of all files that its vectors depend on, the same on every machine.
//!
//! Large files are hashed once: the user's cache keeps the id under their places, sizes and times.

use std::fs;
use std::io;
use std::path::Path;

use super::files::invalid;
use super::weight_files::MODULE_FILE;
use crate::encoder::hub_cache;
use crate::encoder::user_cache;
use crate::error::Result;

/// Changes with what is hashed, and how.
const CONTEXT: &str = "pullquote 2026-11 id of a model";
/// Bytes of files that are hashed in a few milliseconds, which the cache need not save.
const SMALL: u64 = 16 << 20;
/// Hexadecimal digits of an id: 128 bits.
const DIGITS: usize = 32;

/// The id of the model in this directory.
///
/// # Errors
/// [`crate::error::ErrorKind::InvalidModel`] for a damaged `modules.json`, and for a file that cannot be read.
pub(super) fn read(directory: &Path) -> Result<String> {
    let mut names = hub_cache::model_files(directory)?;
    if directory.join(MODULE_FILE).exists() {
        names.push(MODULE_FILE.to_owned());
    }
    names.sort_unstable();
    let unreadable = |error: io::Error| invalid(directory, &format!("its files cannot be hashed: {error}"));
    let (seen, bytes) = seen(directory, &names).map_err(unreadable)?;
    if bytes < SMALL {
        return hashed(directory, &names).map_err(unreadable);
    }
    let kept = format!("model_id-{}", &seen[..DIGITS]);
    let is_id = |id: &String| id.len() == DIGITS && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    if let Some(id) = user_cache::read(&kept).and_then(|bytes| String::from_utf8(bytes).ok()).filter(is_id) {
        return Ok(id);
    }
    let id = hashed(directory, &names).map_err(unreadable)?;
    user_cache::write(&kept, id.as_bytes());
    Ok(id)
}

fn hashed(directory: &Path, names: &[String]) -> io::Result<String> {
    let mut whole = blake3::Hasher::new_derive_key(CONTEXT);
    for name in names {
        let mut content = blake3::Hasher::new();
        io::copy(&mut fs::File::open(directory.join(name))?, &mut content)?;
        whole.update(blake3::hash(name.as_bytes()).as_bytes()).update(content.finalize().as_bytes());
    }
    Ok(whole.finalize().to_hex()[..DIGITS].to_owned())
}

/// A hash of what can be seen of the files without reading them, and the number of their bytes.
fn seen(directory: &Path, names: &[String]) -> io::Result<(String, u64)> {
    let mut bytes = 0;
    let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
    for name in names {
        let path = fs::canonicalize(directory.join(name))?;
        let metadata = fs::metadata(&path)?;
        bytes += metadata.len();
        let line = format!("{name}\0{}\0{}\0{:?}\n", path.display(), metadata.len(), metadata.modified()?);
        hasher.update(line.as_bytes());
    }
    Ok((hasher.finalize().to_hex().to_string(), bytes))
}
