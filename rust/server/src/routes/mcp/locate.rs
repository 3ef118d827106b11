//! The tool `locate`: whether a quote stands in a text, and where.

use std::borrow::Cow;

use pullquote_core::engine::Work;
use pullquote_wire::quotes::{LocateRequest, Located};
use pullquote_wire::result::OffsetUnit;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{parse_arguments, result};
use crate::app::App;
use crate::http::admission::Admitted;
use crate::http::failure::Failure;
use crate::routes::locate;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LocateArguments {
    #[schemars(description = "the text, Markdown or HTML that is quoted")]
    page: String,
    #[schemars(length(min = 1), description = "the quote, as it was written")]
    quote: String,
}

/// The output schema of the tool.
pub(super) type Places = Located<'static>;

pub(super) async fn find(admitted: &mut Admitted<App>, arguments: Value) -> Result<(Value, Work), Failure> {
    let LocateArguments { page, quote } = parse_arguments(arguments)?;
    let request = LocateRequest { page: Cow::Owned(page), quote: Cow::Owned(quote), offsets: OffsetUnit::Codepoint };
    let found = admitted.with_permit(move |app, input| {
        let located = locate::locate(app, input, &request)?;
        Ok((result(input, &located)?, Work::default()))
    });
    found.await
}
