//! Slots: how many requests may queue or run, over all clients and for each key.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use pullquote_core::runtime::sync::lock;

use crate::http::auth::KeyHash;
use crate::http::failure::{Failure, overloaded};

pub(crate) struct Slots {
    max: usize,
    max_per_key: Option<usize>,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    all: usize,
    /// Only keys with a request.
    by_key: HashMap<KeyHash, usize>,
}

/// The slot of a request, until it is dropped.
pub(crate) struct Slot {
    slots: Arc<Slots>,
    key: Option<KeyHash>,
}

impl Slots {
    pub(crate) fn new(max: usize, max_per_key: Option<usize>) -> Arc<Self> {
        Arc::new(Self { max, max_per_key, taken: Mutex::default() })
    }

    pub(crate) fn taken(&self) -> usize {
        lock(&self.taken).all
    }

    /// Whether there is a slot now: a body that comes in vain is refused before it is read.
    pub(crate) fn check(&self, key: Option<&KeyHash>) -> Result<(), Failure> {
        self.allows(&lock(&self.taken), key)
    }

    pub(crate) fn take(self: &Arc<Self>, key: Option<KeyHash>) -> Result<Slot, Failure> {
        let mut taken = lock(&self.taken);
        self.allows(&taken, key.as_ref())?;
        taken.all += 1;
        if let Some(key) = key {
            *taken.by_key.entry(key).or_default() += 1;
        }
        drop(taken);
        Ok(Slot { slots: Arc::clone(self), key })
    }

    fn allows(&self, taken: &Taken, key: Option<&KeyHash>) -> Result<(), Failure> {
        let of_key = key.and_then(|key| taken.by_key.get(key)).copied().unwrap_or_default();
        if let Some(max) = self.max_per_key.filter(|max| of_key >= *max) {
            return Err(overloaded(format!(
                "{max} requests of this key are running or queued, its maximum; try again"
            )));
        }
        if taken.all >= self.max {
            return Err(overloaded(format!("{} requests are running or queued, the maximum; try again", self.max)));
        }
        Ok(())
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = lock(&self.slots.taken);
        taken.all -= 1;
        let Some(key) = self.key else { return };
        if let Some(count) = taken.by_key.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                taken.by_key.remove(&key);
            }
        }
    }
}
