//! Rows of JSON: whatever stands in a body, what comes of it is rows of one length, all of them numbers, or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pullquote_client::rows::read_rows;

fuzz_target!(|data: &[u8]| {
    for count in 0..4 {
        if let Ok(rows) = read_rows(data, count) {
            assert_eq!(rows.values.len(), count * rows.dimension);
            assert!(rows.values.iter().all(|value| value.is_finite()));
        }
    }
});
