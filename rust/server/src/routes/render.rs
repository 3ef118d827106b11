//! `POST /render`: a page of an uploaded PDF as an image, on which a viewer marks the rectangles of highlights.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use pullquote_core::engine::Work;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::app::App;
use crate::http::admission::Admitted;
use crate::http::failure::{Cause, Failure, refused};
use crate::http::host_check::check_origin;
use crate::http::reply::Reply;
use crate::routes::highlights::API;
use crate::routes::route::{Route, read_query};
use crate::routes::schemas::Schemas;
use crate::uploads::form::{UploadForm, is_form};

const PNG: &str = "image/png";

/// Pixels of an image's width.
const LEAST_WIDTH: usize = 16;
const MOST_WIDTH: usize = 4096;
const DEFAULT_WIDTH: usize = 1200;

/// The part of the page that an image shows, in points: left, bottom, right and top.
const AREA: HeaderName = HeaderName::from_static("x-page-area");
/// Degrees by which it is turned clockwise.
const ROTATION: HeaderName = HeaderName::from_static("x-page-rotation");

pub(super) fn routes(schemas: &mut Schemas) -> Vec<Route> {
    let file = json!({"type": "string", "contentMediaType": "application/pdf"});
    vec![
        API.post("/render", render, "render", "Show a page of a PDF as an image")
            .described(
                "The header `x-page-area` has the left, bottom, right and top of what the image shows, in the points of \
                 `rectangles`, and `x-page-rotation` the degrees by which it is turned clockwise.",
            )
            .reads_form(&schemas.request::<RenderRequest>(), &file)
            .writes(200, "The page.", vec![(PNG, json!({"type": "string", "contentMediaType": PNG}))])
            .fails(&[403, 501]),
    ]
}

/// A page and the size of its image.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with a page and a width")]
struct RenderRequest {
    /// Number of the page, from 1.
    #[serde(default = "first_page")]
    #[schemars(range(min = 1))]
    page: usize,
    /// Width of the image in pixels.
    #[serde(default = "default_width")]
    #[schemars(range(min = LEAST_WIDTH, max = MOST_WIDTH))]
    width: usize,
}

const fn first_page() -> usize {
    1
}

const fn default_width() -> usize {
    DEFAULT_WIDTH
}

async fn render(State(app): State<Arc<App>>, request: Request) -> Result<Response, Failure> {
    let [] = read_query(&request, [])?;
    if !is_form(request.headers()) {
        let message = "the body must be a form (multipart/form-data) with a file, and perhaps a request and a password";
        return Err(Failure::new(Cause::UnsupportedMediaType, message));
    }
    check_origin(request.headers(), &app.settings.cors_origin)?;
    let mut admitted = Admitted::admit(&app, request).await?.storing();
    let deadline = admitted.limits.deadline.into();
    let (fields, parsing) = admitted
        .with_permit(|app, input| {
            let UploadForm { request, files, password } = UploadForm::read(&input.headers, input.body.clone())?;
            let fields: RenderRequest = input.parse_part(&request)?;
            if fields.page == 0 {
                return refused("page", "pages count from 1");
            }
            if !(LEAST_WIDTH..=MOST_WIDTH).contains(&fields.width) {
                let message = format!("it must be from {LEAST_WIDTH} to {MOST_WIDTH} pixels, not {}", fields.width);
                return refused("width", message);
            }
            let [file] = <[_; 1]>::try_from(files).map_err(|files| {
                let message = format!("there are {} files; a request renders a page of one", files.len());
                Failure::of_field(Cause::Unprocessable, "file", message)
            })?;
            Ok((fields, app.parser.prepare(0, file, password.as_deref())?))
        })
        .await?;
    let page = app.parser.render(parsing, fields.page, fields.width, deadline).await?;
    let area = page.area.map(|place| place.to_string()).join(",");
    let area = HeaderValue::from_str(&area).unwrap_or(HeaderValue::from_static(""));
    let headers = vec![(AREA, area), (ROTATION, page.rotation.into())];
    Ok(admitted.respond(Reply { headers, ..Reply::new(PNG, page.image.into(), Work::default()) }))
}
