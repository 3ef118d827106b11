//! The parsers of answers against whatever may come: rows as the law wants them, or an error; never a panic, never a
//! wrong row.

use bytes::Bytes;
use futures_util::FutureExt;
use half::{bf16, f16};
use proptest::prelude::*;
use pullquote_client::forms::read_form;
use pullquote_client::raw::{BodyWriter, EmbeddingHeaders, widen};
use pullquote_client::rows::read_rows;
use pullquote_wire::embedding_dtype::EmbeddingDtype;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

fn headers(pairs: &[(&str, String)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(HeaderName::from_bytes(name.as_bytes()).unwrap(), value);
        }
    }
    headers
}

fn finite() -> impl Strategy<Value = f32> {
    any::<f32>().prop_filter("a number", |value| value.is_finite())
}

fn rows() -> impl Strategy<Value = (usize, Vec<f32>)> {
    (1..9_usize, 1..9_usize)
        .prop_flat_map(|(rows, dimension)| (Just(rows), prop::collection::vec(finite(), rows * dimension)))
}

/// What a future comes to that never waits.
fn at_once<T>(work: impl Future<Output = T>) -> T {
    work.now_or_never().expect("all of the body is here")
}

proptest! {
    #[test]
    fn embedding_headers_must_match_the_request(
        shape in "[0-9+,. -]{0,12}|2,[0-9]{1,6}", dtype in "float(32|16|64)|bfloat16|int8|binary|", order in "little|LITTLE|big|", length in "[0-9]{0,8}",
        kind in "application/octet-stream(; a=b)?|application/json",
    ) {
        let pairs = [
            ("content-type", kind), ("x-embedding-shape", shape), ("x-embedding-dtype", dtype),
            ("x-embedding-byte-order", order), ("content-length", length.clone()),
        ];
        if let Ok(Some(claim)) = EmbeddingHeaders::read(&headers(&pairs), 2) {
            prop_assert_eq!(claim.rows, 2);
            prop_assert!((1..=65_536).contains(&claim.dimension));
            prop_assert_eq!(length.parse(), Ok(claim.bytes()));
        }
    }

    #[test]
    fn narrow_dtypes_widen_to_exact_float32(bits in prop::collection::vec(any::<u16>(), 1..40), brain: bool) {
        let dtype = if brain { EmbeddingDtype::Bfloat16 } else { EmbeddingDtype::Float16 };
        let exact = |bits: &u16| if brain { bf16::from_bits(*bits).to_f32() } else { f16::from_bits(*bits).to_f32() };
        let expected: Vec<f32> = bits.iter().map(exact).collect();
        let claim = EmbeddingHeaders { rows: 1, dimension: bits.len(), dtype, truncated: 0 };
        let mut place = vec![0.0; bits.len()];
        let body: Vec<u8> = bits.iter().flat_map(|two| two.to_le_bytes()).collect();
        widen(dtype, &body, &mut place);
        prop_assert_eq!(claim.check_values(&body).is_ok(), expected.iter().all(|value| value.is_finite()));
        prop_assert_eq!(place.iter().map(|value| value.to_bits()).collect::<Vec<_>>(), expected.iter().map(|value| value.to_bits()).collect::<Vec<_>>());
    }

    #[test]
    fn a_body_is_the_same_however_it_is_cut(
        dtype in prop::sample::select(EmbeddingDtype::ALL.to_vec()), rows in 1..5_usize, dimension in 1..20_usize,
        random in prop::collection::vec(any::<u8>(), 400), cuts in prop::collection::vec(0..40_usize, 0..20), extra in -3..4_isize,
    ) {
        let claim = EmbeddingHeaders { rows, dimension, dtype, truncated: 0 };
        let mut bytes = random[..claim.bytes()].to_vec();
        let is_sound = |row: &[u8]| match dtype {
            EmbeddingDtype::Float32 => row.as_chunks().0.iter().all(|four| f32::from_le_bytes(*four).is_finite()),
            EmbeddingDtype::Float16 => row.as_chunks().0.iter().all(|two| f16::from_le_bytes(*two).is_finite()),
            EmbeddingDtype::Bfloat16 => row.as_chunks().0.iter().all(|two| bf16::from_le_bytes(*two).is_finite()),
            EmbeddingDtype::Int8 => true,
            EmbeddingDtype::Binary => (dimension..8 * row.len()).all(|bit| row[bit / 8] & (0x80 >> (bit % 8)) == 0),
        };
        let sound = bytes.chunks(dtype.row_bytes(dimension)).all(is_sound);
        bytes.resize(bytes.len().saturating_add_signed(extra), 0);
        let mut place = vec![7; claim.bytes()];
        let mut writer = BodyWriter::new(claim, &mut place).unwrap();
        let mut rest = bytes.as_slice();
        let mut written = Ok(());
        for cut in cuts.iter().copied().chain([usize::MAX]) {
            let (piece, others) = rest.split_at(cut.min(rest.len()));
            written = written.and_then(|()| writer.write(piece));
            rest = others;
        }
        let written = written.and_then(|()| writer.finish());
        prop_assert_eq!(written.is_ok(), sound && extra == 0);
        if extra == 0 {
            prop_assert_eq!(place, bytes);
        }
    }

    #[test]
    fn a_form_with_missing_or_repeated_parts_is_an_error(
        names in prop::collection::vec(prop::sample::select(vec!["highlights", "vectors", "queries", "other"]), 0..5),
        content in prop::collection::vec(any::<u8>(), 0..60), cut in 0..200_usize,
    ) {
        let mut body = Vec::new();
        for name in &names {
            body.extend(format!("--b0undary\r\ncontent-disposition: form-data; name=\"{name}\"\r\nx-of: {name}\r\n\r\n").bytes());
            body.extend(&content);
            body.extend(b"\r\n");
        }
        body.extend(b"--b0undary--\r\n");
        let kind = HeaderValue::from_static("multipart/form-data; boundary=b0undary");
        let read = |body: &[u8]| at_once(read_form(Some(&kind), Bytes::copy_from_slice(body)));
        let mut sorted = names.clone();
        sorted.sort_unstable();
        let form = read(&body);
        prop_assert_eq!(form.is_ok(), sorted == ["highlights", "queries", "vectors"]);
        if let Ok(form) = form {
            prop_assert_eq!((&form.highlights[..], &form.vectors.content[..]), (&content[..], &content[..]));
            prop_assert_eq!(&form.queries.headers["x-of"], "queries");
        }
        // Whatever is cut off is missed.
        let end = (body.len() - 4).min(cut);
        prop_assert!(read(&body[..end]).is_err());
    }

    #[test]
    fn json_rows_come_back_in_their_places_as_numbers_and_as_base64((rows, values) in rows(), order: u64, packed: bool) {
        use base64::Engine;
        let dimension = values.len() / rows;
        let mut listed: Vec<serde_json::Value> = values.chunks(dimension).enumerate().map(|(index, row)| {
            let bytes: Vec<u8> = row.iter().flat_map(|value| value.to_le_bytes()).collect();
            let base64 = base64::engine::general_purpose::STANDARD.encode(bytes);
            if packed { serde_json::json!({"index": index, "embedding": base64}) } else { serde_json::json!({"index": index, "embedding": row}) }
        }).collect();
        let turn = usize::try_from(order % rows as u64).unwrap();
        listed.rotate_left(turn);
        let body = serde_json::json!({"object": "list", "data": listed, "usage": {"prompt_tokens": 1}}).to_string();
        let found = read_rows(body.as_bytes(), rows).unwrap();
        prop_assert_eq!((found.dimension, found.values), (dimension, values.clone()));
        prop_assert!(read_rows(body.as_bytes(), rows + 1).is_err());
        let bare: Vec<&[f32]> = values.chunks(dimension).collect();
        prop_assert_eq!(read_rows(&serde_json::to_vec(&bare).unwrap(), rows).unwrap().values, values);
    }

    #[test]
    fn random_bodies_are_rows_or_errors(
        body in r#"\{"data": ?\[(\{"index": ?-?[0-9]{1,2}, ?"embedding": ?("[A-Za-z0-9+/=]{0,24}"|\[([-0-9.e]{1,6},?){0,5}\]|null)\},?){0,4}\]\}|[\[\]0-9.,eE+\-]{0,30}|.{0,40}"#,
        rows in 0..4_usize,
    ) {
        if let Ok(found) = read_rows(body.as_bytes(), rows) {
            prop_assert_eq!(found.values.len(), rows * found.dimension);
            prop_assert!(found.values.iter().all(|value| value.is_finite()));
        }
    }

    #[test]
    fn invalid_base64_is_an_error(text in "[A-Za-z0-9+/=\\-_ ]{0,60}", other in "[A-Za-z0-9+/=]{0,60}") {
        let body = serde_json::json!({"data": [{"embedding": text}, {"embedding": other}]}).to_string();
        if let Ok(found) = read_rows(body.as_bytes(), 2) {
            prop_assert_eq!(found.values.len(), 2 * found.dimension);
        }
    }
}
