//! Times as numbers of seconds, for `#[serde(with = …)]`: above 0, and at most a week, because some are added to the clock.

use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::Serializer;

const LONGEST: Duration = Duration::from_secs(7 * 24 * 60 * 60);

pub(crate) fn serialize<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    positive(f64::deserialize(deserializer)?)
}

fn positive<E: Error>(seconds: f64) -> Result<Duration, E> {
    if seconds.is_nan() || seconds <= 0.0 {
        return Err(E::custom("more than 0 seconds"));
    }
    Ok(Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST).min(LONGEST))
}

fn finite<E: Error>(seconds: f64) -> Result<Duration, E> {
    if seconds.is_infinite() { Err(E::custom("a finite number of seconds")) } else { positive(seconds) }
}

pub(crate) mod or_zero {
    pub(crate) use super::serialize;
    use super::{Deserialize, Deserializer, Duration, Error, finite};

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        if seconds < 0.0 {
            return Err(D::Error::custom("0 or more seconds"));
        }
        if seconds == 0.0 { Ok(Duration::ZERO) } else { finite(seconds) }
    }
}

pub(crate) mod optional {
    use super::{Deserialize, Deserializer, Duration, Serializer, finite};

    #[expect(clippy::ref_option, reason = "what serde calls")]
    pub(crate) fn serialize<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => super::serialize(time, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        Option::<f64>::deserialize(deserializer)?.map(finite).transpose()
    }
}
