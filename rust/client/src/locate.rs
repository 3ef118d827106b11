//! Where a quote stands in a page.

use std::borrow::Cow;
use std::sync::Arc;

use pullquote_core::error::Result;
use pullquote_wire::quotes::{LocateRequest, Located};
use pullquote_wire::result::OffsetUnit;

use crate::call_options::CallOptions;
use crate::client::Client;
use crate::exchange::{Request, compute, json_body};
use crate::vectors::Text;

impl Client {
    /// The places of a quote in a page, in characters.
    ///
    /// # Errors
    /// Those of all calls of a [`Client`].
    pub fn locate<T: Text>(
        &self,
        page: T,
        quote: T,
        call: CallOptions,
    ) -> impl Future<Output = Result<Located<'static>>> + Send + use<T> {
        let shared = Arc::clone(&self.shared);
        async move {
            let (page, quote) = (page.as_ref(), quote.as_ref());
            let request = LocateRequest {
                page: Cow::Borrowed(page),
                quote: Cow::Borrowed(quote),
                offsets: OffsetUnit::Codepoint,
            };
            let body = || json_body(&request);
            let answer =
                shared.fetch(&Request::post("/locate", compute(page.len() + quote.len(), body)?), call).await?;
            answer.read_json()
        }
    }
}
