//! `POST /highlights`: queries and pages in, passages out. pullquote's own route.
//!
//! All pages of a request are one call of the engine. With `Accept: application/x-ndjson` each list of passages is a line,
//! which is sent as soon as its pages are done (`lines`), and a last line has the rest. With `return_vectors` and `Accept:
//! multipart/form-data`, the vectors follow the JSON as bytes (`vectors`). A form has files (`uploads`).

mod blocks;
pub(super) mod failure;
mod highlights_body;
mod lines;
mod marks;
mod request;
mod response;
mod vectors;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use futures_util::future::try_join_all;
use pullquote_core::engine::Pairing;
use pullquote_core::engine::options::seconds;
use pullquote_wire::request::HighlightsRequest;
use pullquote_wire::result::Highlights;
use serde_json::json;

use self::failure::NATIVE;
pub use self::highlights_body::{BodyLimits, BodyRefusal, HighlightsBody};
use self::request::{prepare, take_documents};
pub(super) use self::response::is_answered;
use self::response::{Frame, Totals, limited};
pub(crate) use self::vectors::FORM;
use self::vectors::{ReturnedVectors, VectorFormat};
use crate::app::App;
use crate::http::admission::{Admitted, admit_and_run, run};
use crate::http::answer::Listed;
use crate::http::failure::{Failure, refused};
use crate::http::host_check::check_origin;
use crate::http::input::Input;
use crate::http::negotiation;
use crate::http::reply::Reply;
use crate::http::vector_headers::OCTETS;
use crate::routes::item_limits::{check_count, check_lengths};
use crate::routes::request_pages::{RequestPage, read_pages};
use crate::routes::route::{Api, JSON, Route, read_query};
use crate::routes::schemas::Schemas;
use crate::uploads::form::{self, UploadForm};

pub(crate) const LINES: &str = "application/x-ndjson";

pub(super) const API: Api = Api { tag: "highlights", errors: &NATIVE };

pub(super) fn routes(schemas: &mut Schemas) -> Vec<Route> {
    let lines = json!({
        "type": "string",
        "description": "One line of JSON for each entry of `results`, as soon as its page is done, and a last line with the other fields, or with \
             an error.",
    });
    let form = json!({
        "type": "object",
        "properties": {
            "highlights": schemas.response::<Highlights>(),
            "vectors": {"type": "string"},
            "queries": {"type": "string"},
        },
        "description": "With `return_vectors`: the JSON without vectors, and the vectors as bytes.",
    });
    let example = json!({
        "query": "How is bread made?",
        "documents": [{"id": "bread", "title": "Bread", "text": "The moon is white. Bread is baked from flour."}],
        "highlight_length": 1,
        "top_k": 1,
    });
    let content = vec![(JSON, schemas.response::<Highlights>()), (LINES, lines), (FORM, form)];
    let file = json!({"type": "string", "contentMediaType": OCTETS});
    let files = json!({"type": "array", "minItems": 1, "maxItems": "{max_documents}", "items": file});
    let request = json!({"type": "object", "description": "As in JSON, without `documents`."});
    vec![
        API.post("/highlights", highlights, "highlights", "Find the passages that answer a query")
            .described(
                "Every highlight is an exact substring of its page. With `accept: application/x-ndjson` the highlights of each \
                 page are one line. With `return_vectors` and `accept: multipart/form-data` the answer has three parts: \
                 `highlights`, the JSON; `vectors`, the vectors of the highlights as bytes, in the order of the JSON; and \
                 `queries`, the vectors of the queries. The `x-embedding` headers of a part describe its vectors. After \
                 `timeout` seconds the answer is 504. If `priority` is 0, the header `request-priority` sets it. A form has files; \
                 highlights of PDFs then have `page_number` and `rectangles`.",
            )
            .reads(schemas.request::<HighlightsRequest>(), example)
            .reads_form(&request, &files)
            .writes(200, "Highlights, page by page.", content)
            .fails(&[403, 404, 501]),
    ]
}

async fn highlights(State(app): State<Arc<App>>, request: Request) -> Result<Response, Failure> {
    let [] = read_query(&request, [])?;
    if form::is_form(request.headers()) {
        return uploaded(&app, request).await;
    }
    admit_and_run(&app, request, |app, input| {
        let mut body: HighlightsRequest = input.parse()?;
        let documents = read_pages(take_documents(&mut body)?, app, input)?;
        respond(app, input, body, documents)
    })
    .await
}

/// Highlights of the files of a form. The work takes two permits; it holds none while processes read the files.
async fn uploaded(app: &Arc<App>, request: Request) -> Result<Response, Failure> {
    check_origin(request.headers(), &app.settings.cors_origin)?;
    let mut admitted = Admitted::admit(app, request).await?.storing();
    let deadline = admitted.limits.deadline.into();
    let (form_request, names, parsings) = admitted
        .with_permit(|app, input| {
            let UploadForm { request, files, password } = UploadForm::read(&input.headers, input.body.clone())?;
            let fields: HighlightsRequest = input.parse_part(&request)?;
            if fields.documents.is_some() {
                let message = "the documents of a form are its files; leave documents out of the request";
                return refused("documents", message);
            }
            check_count(files.len(), "file", app.settings.max_documents)?;
            let names: Vec<Option<String>> = files.iter().map(|file| file.name.clone()).collect();
            let prepare = |(index, file)| app.parser.prepare(index, file, password.as_deref());
            let parsings = files.into_iter().enumerate().map(prepare).collect::<Result<Vec<_>, Failure>>()?;
            Ok((request, names, parsings))
        })
        .await?;
    let parsed = try_join_all(parsings.into_iter().map(|parsing| app.parser.run(parsing, deadline))).await?;
    run(admitted, move |app, input| {
        let documents = parsed.into_iter().map(|parsed| app.parser.finish(parsed)).collect::<Result<Vec<_>, _>>()?;
        input.memory.hold(documents.iter().map(|document| document.bytes()).sum())?;
        input.work_on(documents.iter().map(|document| document.text.len()).sum())?;
        let pages = names.into_iter().zip(documents).map(|(name, document)| RequestPage::uploaded(name, document));
        let pages: Vec<RequestPage> = pages.collect();
        check_lengths(pages.iter().map(|page| page.text.as_ref()), "file", app.settings.max_document_bytes)?;
        respond(app, input, input.parse_part(&form_request)?, pages)
    })
    .await
}

fn respond(
    app: &App,
    input: &Input,
    request: HighlightsRequest,
    documents: Vec<RequestPage>,
) -> Result<Reply, Failure> {
    let kind = negotiation::preferred(&input.headers, &[JSON, LINES, FORM]);
    let wanted =
        VectorFormat::read(request.return_vectors, request.encoding_format, request.embedding_dtype, kind == FORM)?;
    let request = prepare(request, documents, app.settings.max_queries, app.settings.max_query_bytes)?;
    let (texts, options) = (&request.texts, &request.options);
    if texts.pairing != Pairing::Each {
        input.work_for_queries(texts.queries.len())?;
    }
    let end = input.end().within(options.timeout.map(seconds).transpose()?);
    let end = if options.priority == 0 { end } else { end.with_priority(options.priority) };
    // Vectors are made for all passages together.
    if kind == LINES && wanted.is_none() {
        return lines::respond(app, input, request, end);
    }
    let call = end.call();
    let answers = app.engine.wait(&call, app.engine.highlights(texts, &request.question, &call))?;
    let mut frame = Frame::new(&request, &answers, &call);
    let mut totals = Totals::of(&answers, options);
    let queries: Vec<&str> = texts.queries.iter().map(AsRef::as_ref).collect();
    let rows = answers.scores.len() + queries.len();
    let vector_bytes = wanted.map_or(Ok(0), |_| vectors::check(app, input, rows))?;
    let vectors =
        wanted.map(|wanted| wanted.encode(app, &frame.passages(), &queries, &end, &mut totals.work)).transpose()?;
    let (of_queries, bytes) = match vectors {
        Some(ReturnedVectors::Written { passages, queries }) => {
            frame.vectors = Some(passages);
            (Some(queries), None)
        }
        Some(ReturnedVectors::Bytes(bytes)) => (None, Some(bytes)),
        None => (None, None),
    };
    let (mut rest, work) = (totals.footer(&request, input.queued), totals.work);
    rest.query_vectors = of_queries.as_ref().map(|queries| queries.rows().collect());
    let mut answer = limited(&request, input.answer()).with_vectors(vector_bytes);
    frame.check_marks(&answer)?;
    match bytes {
        None if kind == LINES => {
            frame.pages().try_for_each(|page| answer.line(&page))?;
            answer.line(&rest)?;
            Ok(Reply::new(LINES, answer.finish()?.into_body(), work))
        }
        None => Reply::written(answer, &Highlights { results: Listed(|| frame.pages()), rest }, work),
        Some(bytes) => {
            answer.json(&Highlights { results: Listed(|| frame.pages()), rest })?;
            Ok(bytes.form(answer.finish()?, work))
        }
    }
}
