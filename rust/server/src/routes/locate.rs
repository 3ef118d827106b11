//! `POST /locate`: where a quote stands in a page. It needs no model.

use pullquote_core::engine::Work;
use pullquote_core::quotes;
use pullquote_wire::quotes::{LocateRequest, Located};
use serde_json::json;

use super::highlights::API;
use crate::app::App;
use crate::http::body::of_value;
use crate::http::failure::Failure;
use crate::http::input::Input;
use crate::http::reply::Reply;
use crate::routes::item_limits::check_lengths;
use crate::routes::route::Route;
use crate::routes::schemas::Schemas;

pub(super) fn routes(schemas: &mut Schemas) -> Vec<Route> {
    let example = json!({
        "page": "The Moon is on average 384,400 km away. It is **white**.",
        "quote": "the moon is on average 384,400\nkm away",
    });
    vec![
        API.compute_body("/locate", respond, "locate", "Find where a quote stands in a page")
            .described(
                "White space, case, quotation marks, dashes, line wraps, markup, references of HTML, ligatures and footnote \
                 numbers may differ. A misspelt word, or one more or less, makes a place near; with another number, word or \
                 negation the quote is not found, and `nearest` says what differs.",
            )
            .reads(schemas.request::<LocateRequest>(), example)
            .writes_json("The places of the quote, the best first.", schemas.response::<Located>()),
    ]
}

fn respond(app: &App, input: &Input) -> Result<Reply, Failure> {
    let request: LocateRequest = input.parse()?;
    let located = locate(app, input, &request)?;
    Reply::json(input, &located, Work::default())
}

/// The places of a quote.
pub(super) fn locate<'text>(
    app: &App,
    input: &Input,
    request: &'text LocateRequest,
) -> Result<Located<'text>, Failure> {
    let LocateRequest { page, quote, offsets } = request;
    check_lengths([page.as_ref()], "page", app.settings.max_document_bytes)?;
    check_lengths([quote.as_ref()], "quote", app.settings.max_document_bytes)?;
    let call = input.call(None);
    quotes::locate(page, quote, *offsets, &call.own_checker()).map_err(of_value)
}
